"""Files that are whole or absent, and locks that end with their holder: a kill leaves nothing to repair."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor


def replace_file(path: Path, content: str | bytes, *, mode: int = 0o666) -> Path:
    """Write a file beside its place and rename it, so that a reader finds the old content or the new.

    Args:
        path: The file; its folder exists.
        content: Text is written as UTF-8.
        mode: Permission bits, less the process's umask; they hold from the first byte on.

    Returns:
        The path.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.aside")
    aside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def give_usual_modes(folder: Path) -> None:
    """Give every file of a folder, and of those in it, the permissions that a new file gets from the umask."""
    usual = folder / f".{os.getpid()}.mode"
    usual.touch()
    mode = usual.stat().st_mode
    usual.unlink()
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


@contextmanager
def exclusive_lock(path: Path, *, when_taken: Callable[[], None]) -> Iterator[int]:
    """Hold a lock file, which the system frees when its holder ends, however it ends.

    Args:
        path: The lock file; created if absent, never removed (removing it would let two holders in).
        when_taken: Called once if another process holds the lock. Then the lock is waited for, unless this raises.

    Yields:
        The file descriptor: a child process that inherits it holds the lock too, until it ends.

    Raises:
        OSError: if the file cannot be opened, or its file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if not lock_descriptor(file.fileno(), blocking=False):
            when_taken()
            lock_descriptor(file.fileno())
        yield file.fileno()
