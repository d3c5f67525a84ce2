"""A lock between processes that dies with its holder, so that a kill leaves nothing to clean up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgedit.errors import GraphError


@contextmanager
def locked(path: Path, *, waiting: str = "Waiting for another kgedit process ...") -> Iterator[int]:
    """Hold an exclusive lock on a file, waiting for whoever holds it.

    Args:
        path: The lock file; created if absent, never removed (removing it would let two holders in).
        waiting: Said on stderr if there is someone to wait for.

    Yields:
        The file descriptor: a child process that is given it holds the lock too, until it ends.

    Raises:
        GraphError: on a system without POSIX locks.
    """
    try:
        import fcntl
    except ImportError as error:
        raise GraphError(
            "kgedit's own Neo4j server runs on Linux and macOS. Here, run one with docker compose up -d and set "
            "KGEDIT_GRAPH_URI, KGEDIT_GRAPH_USER and KGEDIT_GRAPH_PASSWORD."
        ) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def say(line: str) -> None:
    """One line of progress, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
