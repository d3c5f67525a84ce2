"""A hard deadline for queries that the server does not stop in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_OF_GRACE = 2.0
"""Extra time in which a server can report its own timeout, which is more informative than a closed connection."""


@contextmanager
def ended_after(seconds: float, end: Callable[[], None]) -> Iterator[threading.Event]:
    """Call a function from another thread if the block lasts too long.

    A server checks its time limit between rows but not while it sends one, and a single row may contain a list of any
    length.

    Args:
        seconds: Time limit of the block.
        end: Ends what the block waits for, such as by closing its connection.

    Yields:
        An event that is set once the function is called.
    """
    is_over = threading.Event()

    def fire() -> None:
        is_over.set()
        end()

    timer = threading.Timer(seconds, fire)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()
