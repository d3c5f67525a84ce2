"""Steps of long work, told to whoever listens: work calls `step`, the command line shows it.

Like logging it reaches through any number of calls; where nobody listens it does nothing. Work whose size is known
takes a progress callback instead, which tells rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

StepListener = Callable[[str, int, int], None]
"""Called with what begins now, how many steps are done, and how many there are."""


def _nobody(_name: str, _done: int, _total: int) -> None:
    return


_LISTENER: ContextVar[StepListener] = ContextVar("kgedit_steps", default=_nobody)


def step(name: str, done: int, total: int) -> None:
    """Tell that a step begins.

    Args:
        name: What is done in it.
        done: Steps before it; `total` when all is done.
        total: Steps in all.
    """
    _LISTENER.get()(name, done, total)


@contextmanager
def listening(listener: StepListener) -> Iterator[None]:
    """Tell a listener of every step until the context ends."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
