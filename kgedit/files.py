"""Files that are whole or absent, and locks that end with their holder: a kill leaves nothing to repair.

What is renamed into place is on the disk before: after a power loss, too, a name has its whole content or the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor


def put_in_place(aside: Path, path: Path) -> Path:
    """Rename a finished file, or a folder with all its files, after its content is on the disk.

    Args:
        aside: The file or folder, on the same file system.
        path: Its place; a file there is replaced, a folder must not be there.

    Returns:
        The path.
    """
    for found in (aside, *aside.rglob("*")) if aside.is_dir() else (aside,):
        if found.is_dir() or found.is_file():
            sync(found)
    aside.replace(path)
    sync(path.parent)
    return path


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle for it
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: str | bytes, *, mode: int = 0o666, durable: bool = True) -> Path:
    """Write a file beside its place and rename it, so that a reader finds the old content or the new.

    Args:
        path: The file; its folder exists.
        content: Text is written as UTF-8.
        mode: Permission bits, less the process's umask; they hold from the first byte on.
        durable: Whether to wait for the disk (some milliseconds); False for what is in a folder that is put in place
            later, or is checked before it is used.

    Returns:
        The path.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.aside")
    aside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return put_in_place(aside, path) if durable else aside.replace(path)
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
