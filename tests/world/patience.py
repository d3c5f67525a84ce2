"""Tests of other processes and threads wait for what happens there, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 120


def wait_until(happened: Callable[[], object], seconds: float = SECONDS) -> None:
    """Look every 10 ms; a busy machine may take long, so the limit is far away.

    Raises:
        AssertionError: if it has not happened by then.
    """
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen in {seconds} s"
        time.sleep(0.01)
