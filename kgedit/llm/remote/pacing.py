"""Limits concurrent calls and delays new ones; shared by all threads that call one server.

"Too many requests" applies to all calls, not only to the rejected one: all threads wait as long as the server asks,
then half as many calls may run, and one more after each round of successes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


class StoppedError(Exception):
    """The work was stopped while a thread was waiting for its turn."""


class Pace:
    """Turns for calls.

    Args:
        most: Maximum number of concurrent calls.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = most
        self._under_way = 0
        self._succeeded = 0
        self._not_before = 0.0
        self._stopped = False
        self._changed = Condition()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until a call may start, and occupy its slot until the context ends.

        Raises:
            StoppedError: if the work is stopped in the meantime.
        """
        with self._changed:
            while True:
                self._go_on()
                left = self._not_before - time.monotonic()
                if left <= 0 and self._under_way < self._allowed:
                    break
                self._changed.wait(left if left > 0 else None)
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def succeeded(self) -> None:
        """Record a reply; after as many replies as concurrent calls are allowed, the limit rises by one."""
        with self._changed:
            self._succeeded += 1
            if self._succeeded >= self._allowed:
                self._succeeded = 0
                self._allowed = min(self._most, self._allowed + 1)
                self._changed.notify_all()

    def slow_down(self, seconds: float) -> None:
        """Start no call for some seconds, and halve the number of concurrent calls."""
        with self._changed:
            until = time.monotonic() + seconds
            if until > self._not_before:
                # Calls that were rejected together count once.
                if self._not_before <= time.monotonic():
                    self._allowed = max(1, self._allowed // 2)
                self._not_before = until
            self._succeeded = 0

    def wait(self, seconds: float) -> None:
        """Wait without occupying a slot.

        Raises:
            StoppedError: if the work is stopped in the meantime.
        """
        until = time.monotonic() + seconds
        with self._changed:
            while (left := until - time.monotonic()) > 0:
                self._go_on()
                self._changed.wait(left)
            self._go_on()

    def stop(self) -> None:
        """Start no further calls; running ones finish."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _go_on(self) -> None:
        if self._stopped:
            raise StoppedError


def backoff(attempt: int, chance: random.Random) -> float:
    """Seconds before the next attempt: doubled each time, then randomly reduced by up to half ("equal jitter").

    Args:
        attempt: Number of attempts made, from 1.
        chance: Random source, which spreads threads that failed together.
    """
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (attempt - 1))
    return longest * (0.5 + chance.random() / 2)
