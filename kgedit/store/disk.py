"""Turns disk errors into errors with instructions."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from kgedit.errors import StoreError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_FOLDER = (errno.ENOTDIR, errno.EEXIST)
_DUCKDB_SAYS = {
    "No space left on device": errno.ENOSPC,
    "Disk quota exceeded": errno.EDQUOT,
    "File too large": errno.EFBIG,
    "Permission denied": errno.EACCES,
    "Operation not permitted": errno.EPERM,
    "Read-only file system": errno.EROFS,
    "Not a directory": errno.ENOTDIR,
}


@contextmanager
def disk_errors(folder: Path, *, again: str = "give the same command again: it resumes") -> Iterator[None]:
    """Turn errors of the operating system, Arrow and DuckDB into a StoreError.

    Args:
        folder: Folder that is written or read, for the message.
        again: Instruction that follows making room on the disk.

    Raises:
        StoreError: with the reason, the path and an instruction.
    """
    try:
        yield
    except ConnectionError:
        # A closed pipe behind the progress bar is not a disk error.
        raise
    except OSError as error:
        path = Path(error.filename) if isinstance(error.filename, str) and error.filename else folder
        raise StoreError(_sentence(error.errno, str(error.strerror or error), folder, path, again)) from error
    except duckdb.IOException as error:
        number = next((number for said, number in _DUCKDB_SAYS.items() if said in str(error)), None)
        raise StoreError(_sentence(number, _first_line(error), folder, folder, again)) from error
    except duckdb.OutOfMemoryException as error:
        raise StoreError(
            f"Memory ran out, and so did the room for temporary files in {folder} ({_first_line(error)}). "
            f"Make room, or set KGEDIT_STORE_MEMORY (such as 8GB), and {again}."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _sentence(number: int | None, reason: str, folder: Path, path: Path, again: str) -> str:
    if number in _FULL:
        return f"The disk of {folder} is full. Make room and {again}."
    if number == errno.EFBIG:
        return (
            f"A file in {folder} would become larger than this system allows (see 'ulimit -f'). "
            f"Raise the limit and {again}."
        )
    if number in _FORBIDDEN:
        return (
            f"{path} cannot be read or written: {reason}. Make {folder} writable for this user, or set KGEDIT_HOME to "
            "a folder that is."
        )
    if number in _NO_FOLDER:
        return f"{_file_among(path)} is not a folder. Move it, or set KGEDIT_HOME to another folder."
    return f"{path} cannot be read or written: {reason}. Check the disk and {again}."


def _file_among(path: Path) -> Path:
    """The first of a path and its parent folders that is a file."""
    return next((one for one in (path, *path.parents) if one.exists() and not one.is_dir()), path)
