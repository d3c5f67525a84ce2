"""A hard end for a query: what its server does not stop in time is stopped from here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_OF_GRACE = 2.0
"""Time that a server has beyond its own limit to report it, which says more than a connection that is closed."""


@contextmanager
def ended_after(seconds: float, end: Callable[[], None]) -> Iterator[threading.Event]:
    """Call a function from another thread if the block lasts too long.

    A server checks its time limit between rows and not while it sends one, and a single row may hold a list of any
    length.

    Args:
        seconds: Time for the block.
        end: Ends what the block waits for, such as closing its connection.

    Yields:
        Set once the function is called.
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
