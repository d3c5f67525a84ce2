"""Atomic files and folders, and locks that end with their process, so that a kill leaves nothing to repair.

Content is flushed to disk before it is renamed into place, so even after a power loss a path has either its complete
new content or the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from kgedit.errors import TimestepError


def put_in_place(aside: Path, path: Path) -> Path:
    """Flush a finished file, or a folder with all its files, to disk and rename it.

    Args:
        aside: The file or folder, on the same file system.
        path: Final path. An existing file is replaced; a folder must not exist.

    Returns:
        The final path.
    """
    for found in (aside, *aside.rglob("*")) if aside.is_dir() else (aside,):
        if found.is_dir() or found.is_file():
            sync(found)
    aside.replace(path)
    sync(path.parent)
    return path


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open folders for this
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: str | bytes | Iterable[str], *, mode: int = 0o666, durable: bool = True) -> Path:
    """Write a file under another name and rename it, so that readers find either the old or the new content.

    Args:
        path: Path of the file; its folder exists.
        content: Content of the file; text is written as UTF-8, and of several texts one after the other.
        mode: Permission bits, reduced by the process's umask; they apply from the first byte on.
        durable: Whether to wait for the disk (some milliseconds). False is meant for files in a folder that is put in
            place later, and for files that are checked before use.

    Returns:
        The path.
    """
    # Random, because processes of several machines that share the folder may have the same id.
    aside = path.with_name(f".{path.name}.{os.urandom(8).hex()}.aside")
    try:
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                for text in (content,) if isinstance(content, str) else content:
                    file.write(text.encode())
        return put_in_place(aside, path) if durable else aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def check_outputs(paths: Iterable[Path]) -> None:
    """Check that no two outputs of a command are written to the same path.

    Raises:
        TimestepError: if two are.
    """
    resolved = [path.resolve() for path in paths]
    if twice := [path for path in resolved if resolved.count(path) > 1]:
        raise TimestepError(f"Two outputs have the same path: {twice[0]}. Give another one.")


def write_files(texts: Mapping[Path, str], *, overwrite: bool) -> list[Path]:
    """Write texts to files, so that a notebook cell or a command can be run again with the same result.

    Args:
        texts: Text by file; parent folders are created.
        overwrite: Whether to replace files with other content.

    Returns:
        Files, in the given order.

    Raises:
        TimestepError: if a file has other content and must not be replaced; then none is written.
    """
    for path, text in texts.items():
        if path.exists() and not overwrite and not _holds(path, text):
            raise TimestepError(f"{path} already exists, with other content. Replace it: --overwrite")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    return list(texts)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def give_usual_modes(folder: Path) -> None:
    """Set the permissions of all files in a folder and its subfolders to those of new files under the umask."""
    usual = folder / f".{os.getpid()}.mode"
    usual.touch()
    mode = usual.stat().st_mode
    usual.unlink()
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


@contextmanager
def exclusive_lock(path: Path, *, when_taken: Callable[[], None]) -> Iterator[int]:
    """Hold a lock file, which the operating system releases when the process ends for any reason.

    Args:
        path: Path of the lock file; created if absent and never removed, because removing it would allow two holders.
        when_taken: Called once if another process holds the lock. Unless it raises, the lock is then awaited.

    Yields:
        The file descriptor. A child process that inherits it holds the lock too, until it ends.

    Raises:
        OSError: if the file cannot be opened, or its file system does not support locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if not lock_descriptor(file.fileno(), blocking=False):
            when_taken()
            lock_descriptor(file.fileno())
        yield file.fileno()


_BLOCK = 1 << 16  # bytes read at once from the end, where the last whole line is


def read_lines(path: Path) -> list[str]:
    """Read the complete lines of a file; empty if there is no file."""
    whole = path.read_bytes().rpartition(b"\n")[0] if path.is_file() else b""
    # Not splitlines(), which also breaks at U+2028; that may occur in a JSON string.
    return whole.decode("utf-8").split("\n") if whole else []


def cut_half_line(path: Path) -> None:
    """Truncate a file after its last complete line."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        length = end = file.seek(0, os.SEEK_END)
        whole = 0
        while end > 0 and not whole:
            start = max(0, end - _BLOCK)
            file.seek(start)
            whole = start + file.read(end - start).rfind(b"\n") + 1
            whole, end = (whole if whole > start else 0), start
        if whole < length:
            file.truncate(whole)


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Append lines in one write and flush them to the operating system, so that they survive a kill."""
    if not lines:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
