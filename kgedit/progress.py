"""Progress of long work: the work calls `step` and `advance`, and a listener displays them.

Like logging it works across any depth of calls, and does nothing without a listener. A listener belongs to the
thread that installs it; work that continues in other threads passes them `current_advance()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Advance = Callable[[int, int], None]
"""Called with the finished part of the work, and its total or the number of units in that part."""

Listener = Callable[[str, int, int], None]
"""Called with the name of the step that starts or continues, the number of finished steps, and their total."""

Steps = Callable[[str, int, str], Advance]
"""Begins a step with a title, a total and a unit; returns the callback that advances it."""


def ignore(_done: int, _total: int) -> None:
    """Advance that displays nothing."""


def _ignore_step(_name: str, _done: int, _total: int) -> None:
    return


_LISTENER: ContextVar[Listener] = ContextVar("kgedit_steps", default=_ignore_step)
_ADVANCE: ContextVar[Advance] = ContextVar("kgedit_advance", default=ignore)


def step(name: str, done: int, total: int) -> None:
    """Report that a step begins.

    Args:
        name: Name of the step.
        done: Number of steps before it; `total` when all are done.
        total: Total number of steps.
    """
    _LISTENER.get()(name, done, total)


def advance(done: int, total: int) -> None:
    """Report how far the current work has come.

    Args:
        done: The finished part.
        total: Total, or the number of units in the finished part, as the function that does the work documents.
    """
    _ADVANCE.get()(done, total)


def current_advance() -> Advance:
    """The function that `advance` calls, for work that continues in other threads."""
    return _ADVANCE.get()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener with every step until the context ends."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def advancing(given: Advance | None) -> Iterator[None]:
    """Call a function with every advance until the context ends; None means that nothing is displayed."""
    token = _ADVANCE.set(given or ignore)
    try:
        yield
    finally:
        _ADVANCE.reset(token)
