"""Steps of long work: the work calls `step` and the command line displays it.

Like logging it works across any depth of calls, and does nothing without a listener. Work of known size takes a
progress callback instead, which reports rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

StepListener = Callable[[str, int, int], None]
"""Called with the name of the step that begins, the number of finished steps, and the total."""


def _nobody(_name: str, _done: int, _total: int) -> None:
    return


_LISTENER: ContextVar[StepListener] = ContextVar("kgedit_steps", default=_nobody)


def step(name: str, done: int, total: int) -> None:
    """Report that a step begins.

    Args:
        name: Name of the step.
        done: Number of steps before it; `total` when all are done.
        total: Total number of steps.
    """
    _LISTENER.get()(name, done, total)


@contextmanager
def listening(listener: StepListener) -> Iterator[None]:
    """Call a listener with every step until the context ends."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
