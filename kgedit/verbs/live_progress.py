"""Progress for Python callers: one line on stderr, rewritten in place, shown only in a notebook or a terminal."""

from __future__ import annotations

import sys
import time

from kgedit.progress import Advance, Listener, Steps, ignore

_UNITS = {"train": "epochs", "find": "questions", "evaluate": "questions", "edit": "edits"}
"""First word of a run's stage -> unit that is counted."""

_SECONDS_BETWEEN_LINES = 0.5


def is_watched() -> bool:
    """Whether a rewritten line is visible: in a notebook, or if stderr is a terminal."""
    return "ipykernel" in sys.modules or sys.stderr.isatty()


def stage_line() -> Listener | None:
    """Progress line for consecutive stages; None if it would not be visible."""
    return _StageLine() if is_watched() else None


def step_line(title: str, total: int, unit: str) -> Advance:
    """Progress line for one step, as kgedit.progress.Steps; does nothing if it would not be visible."""
    if not is_watched():
        return ignore
    show = _StageLine(unit)
    return lambda done, counted: show(title, done, total, counted)


def one_step(add: Steps, title: str, unit: str) -> Advance:
    """Show work of an unknown total as a step, which begins when the work first reports its total."""
    begun: list[Advance] = []

    def update(done: int, total: int) -> None:
        if not begun:
            begun.append(add(title, total, unit))
        begun[0](done, done)

    return update


def by_stage(add: Steps) -> Listener:
    """Show each stage of a run as a step.

    Stages of a single unit, such as loading a model, are not shown: they contain other stages, so they have no pace.

    Args:
        add: Adds a step, as kgedit.progress.Steps.
    """
    updates: dict[str, Advance] = {}

    def report(stage: str, done: int, total: int) -> None:
        if total > 1 and stage not in updates:
            updates[stage] = add(stage, total, _UNITS.get(stage.partition(" ")[0], "steps"))
        if stage in updates:
            updates[stage](done, done)

    return report


class _StageLine:
    def __init__(self, unit: str = "") -> None:
        self._unit = unit
        self._stage = ""
        self._begun = self._shown = 0.0
        self._width = 0
        self._ended = False

    def __call__(self, stage: str, done: int, total: int, counted: int | None = None) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._begun, self._shown, self._ended = stage, now, now - _SECONDS_BETWEEN_LINES, False
        if self._ended or (done < total and now - self._shown < _SECONDS_BETWEEN_LINES):
            return
        self._shown = now
        text = f"{stage}: {done / max(total, 1):.0%}, {done if counted is None else counted:,} {self._unit}".rstrip()
        if 0 < done < total:
            text += f", about {(now - self._begun) * (total - done) / done:,.0f} s left"
        # Blanks cover a longer previous line; the last line of a stage stays.
        sys.stderr.write(f"\r{text:<{self._width}}" + ("\n" if done >= total else ""))
        sys.stderr.flush()
        self._ended = done >= total
        self._width = 0 if self._ended else len(text)
