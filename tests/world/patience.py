"""Waits in tests for conditions in other processes and threads, instead of fixed times."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 120


def wait_until(happened: Callable[[], object], seconds: float = SECONDS) -> None:
    """Check every 10 ms; the limit is generous because a busy machine may be slow.

    Raises:
        AssertionError: if the condition is not met in time.
    """
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen in {seconds} s"
        time.sleep(0.01)
