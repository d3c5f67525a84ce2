"""Waiting for another kgedit process that works on the same graph."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from kgedit.files import exclusive_lock


def locked(path: Path, *, waiting: str = "Waiting for another kgedit process ...") -> AbstractContextManager[int]:
    """Hold an exclusive lock on a file, waiting for the process that holds it; `waiting` is then said on stderr."""
    return exclusive_lock(path, when_taken=lambda: say(waiting))


def say(line: str) -> None:
    """One line of progress, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
