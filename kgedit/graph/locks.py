"""Waits for other kgedit processes that use the same graph."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from kgedit.files import exclusive_lock


def locked(path: Path, *, waiting: str = "Waiting for another kgedit process ...") -> AbstractContextManager[int]:
    """Hold an exclusive lock on a file. While another process holds it, `waiting` is printed on stderr."""
    return exclusive_lock(path, when_taken=lambda: say(waiting))


def say(line: str) -> None:
    """Print one line of progress on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
