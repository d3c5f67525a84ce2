"""Progress with rate and time left, on stderr; if stderr is not a terminal, occasional lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kgedit.progress import Advance, Listener, Steps, listening
from kgedit.verbs.live_progress import by_stage, one_step

SECONDS_BETWEEN_LINES = 10

_quiet = False


def set_quiet(quiet: bool) -> None:
    """Hide or show messages and progress of this process; results and errors are always printed."""
    global _quiet  # noqa: PLW0603 - one process runs one command, and its threads report progress too
    _quiet = quiet


def say(message: str) -> None:
    """Print a message to stderr, unless they are hidden; results go to stdout."""
    if not _quiet:
        click.echo(message, err=True)


@contextmanager
def bars() -> Iterator[Steps]:
    """Show consecutive steps; yields a function (title, total, unit) that adds one.

    A step appears, and its clock starts, at its first update.
    """
    if _quiet or not sys.stderr.isatty():
        yield _lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:

        def add(title: str, total: int, unit: str) -> Advance:
            task = progress.add_task(title, total=total, rate="", start=False, visible=False)
            clock = _Clock()

            def update(done: int, counted: int) -> None:
                progress.start_task(task)
                rate = clock.rate(counted)
                # A rate that no unit has been counted for would be zero, and its time left endless.
                shown = f"{counted:,} {unit}, {_pace(rate)}" if total > 1 and rate else ""
                progress.update(task, completed=done, rate=shown, visible=True)

            return update

        yield add


@contextmanager
def bar(title: str, unit: str) -> Iterator[Advance]:
    """Show one step; yields a function (done, total)."""
    with bars() as add:
        yield one_step(add, title, unit)


@contextmanager
def stages() -> Iterator[Listener]:
    """One line per stage; yields a function (stage, steps done, number of steps)."""
    with bars() as add:
        yield by_stage(add)


@contextmanager
def steps(title: str) -> Iterator[None]:
    """Show the steps reported by the work (kgedit.progress) as one bar: "Exporting: finding changes"."""
    if _quiet or not sys.stderr.isatty():
        with listening(_step_lines(title)):
            yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None)

        def show(name: str, done: int, total: int) -> None:
            progress.update(task, description=f"{title}: {name}", completed=done, total=total)

        with listening(show):
            yield


def _step_lines(title: str) -> Listener:
    """Print a line for a step that begins long after the last line."""
    said = time.monotonic()

    def tell(name: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            say(f"{title}: {name}, step {done + 1} of {total}")

    return tell


class _Clock:
    """Measures the rate from the first update; anything counted before that is ignored."""

    def __init__(self) -> None:
        self._begun: float | None = None
        self._before = 0

    def seconds(self, counted: int) -> float:
        if self._begun is None:
            self._begun, self._before = time.monotonic(), counted
        return time.monotonic() - self._begun

    def rate(self, counted: int) -> float:
        seconds = self.seconds(counted)
        return (counted - self._before) / max(seconds, 1e-9)


def _pace(rate: float) -> str:
    return f"{1 / rate:,.1f} s each" if 0 < rate < 1 else f"{rate:,.0f}/s"


def _lines(title: str, total: int, unit: str) -> Advance:
    clock = _Clock()
    said = 0.0
    done_before: int | None = None

    def update(done: int, counted: int) -> None:
        nonlocal said, done_before
        seconds = clock.seconds(counted)
        done_before = done if done_before is None else done_before
        if seconds - said >= SECONDS_BETWEEN_LINES:
            said = seconds
            line = f"{title}: {done / max(total, 1):.0%}, {counted:,} {unit}"
            if done > done_before:
                left = seconds * (total - done) / (done - done_before)
                line += f", {_pace(clock.rate(counted))}, about {left:,.0f} s left"
            say(line)

    return update
