"""Progress with rate and time left, on stderr; where stderr is no terminal, a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


def say(message: str) -> None:
    """A line for the person at the terminal. Results go to stdout instead."""
    click.echo(message, err=True)


@contextmanager
def bar(title: str, total: int, *, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far a step is; yields a function (done, counted), `done` in parts of `total`."""
    if not sys.stderr.isatty():
        yield _lines(title, total, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total, rate="")
        begun = time.monotonic()

        def update(done: int, counted: int) -> None:
            rate = counted / max(time.monotonic() - begun, 1e-9)
            progress.update(task, completed=done, rate=f"{counted:,} {unit}, {rate:,.0f}/s")

        yield update


def _lines(title: str, total: int, unit: str) -> Callable[[int, int], None]:
    begun = said = time.monotonic()

    def update(done: int, counted: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= 10:
            said = now
            rate = counted / max(now - begun, 1e-9)
            left = (now - begun) * (total - done) / max(done, 1)
            say(f"{title}: {done / max(total, 1):.0%}, {counted:,} {unit}, {rate:,.0f}/s, about {left:,.0f} s left")

    return update
