"""How many calls may be under way and when the next may start: shared by all threads that ask one server.

A server that says "too many requests" means all of them, not the one that it refused: everybody waits as long as it
asks, and half as many calls are under way from then on, one more after each round of successes.
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
    """The work was stopped while this thread waited for its turn."""


class Pace:
    """Turns for calls.

    Args:
        most: Most calls under way at once.
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
        """Wait until a call may start, and hold its place until the context ends.

        Raises:
            StoppedError: if the work is stopped meanwhile.
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
        """Note a reply: after as many as may be under way, one more call may be."""
        with self._changed:
            self._succeeded += 1
            if self._succeeded >= self._allowed:
                self._succeeded = 0
                self._allowed = min(self._most, self._allowed + 1)
                self._changed.notify_all()

    def slow_down(self, seconds: float) -> None:
        """Let no call start for some seconds, and half as many at once after that."""
        with self._changed:
            until = time.monotonic() + seconds
            if until > self._not_before:
                # Calls that were refused together count as one sign.
                if self._not_before <= time.monotonic():
                    self._allowed = max(1, self._allowed // 2)
                self._not_before = until
            self._succeeded = 0

    def wait(self, seconds: float) -> None:
        """Wait, without holding a turn.

        Raises:
            StoppedError: if the work is stopped meanwhile.
        """
        until = time.monotonic() + seconds
        with self._changed:
            while (left := until - time.monotonic()) > 0:
                self._go_on()
                self._changed.wait(left)
            self._go_on()

    def stop(self) -> None:
        """Let nobody start a call any more; those under way end by themselves."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _go_on(self) -> None:
        if self._stopped:
            raise StoppedError


def backoff(attempt: int, chance: random.Random) -> float:
    """Seconds before the next try: doubled each time, of which chance takes up to half ("equal jitter").

    Args:
        attempt: Tries made, from 1 on.
        chance: Spreads threads that failed together.
    """
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (attempt - 1))
    return longest * (0.5 + chance.random() / 2)
