"""Atomic writing of files and folders by renaming, and a lock for one writer at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgedit.errors import StoreError
from kgedit.files import put_in_place, replace_file


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """Write a text file in a folder that `replace_folder` will put in place; elsewhere use `replace_file`.

    Of several texts, one after the other is written, without holding all of them.
    """
    replace_file(path, text, durable=False)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON in the layout of `json_text`; for the same folders as `write_text`."""
    write_text(path, json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """JSON in a fixed layout; keys keep their order."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def array_text(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Texts of a JSON array with an object per line, for `write_text`."""
    before = "[\n"
    for row in rows:
        yield before + json.dumps(row, ensure_ascii=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def replace_folder(aside: Path, folder: Path) -> None:
    """Flush a finished folder to disk and replace another folder, which may not exist, with it."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    put_in_place(aside, folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def only_writer(lock: Path, *, of: str) -> Iterator[None]:
    """Hold a lock file, which the operating system releases when the process ends for any reason.

    Args:
        lock: Path of the lock file.
        of: Name of the locked thing, for the message.

    Raises:
        StoreError: if another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:
        # Windows lacks such locks; users must avoid two writers at once there.
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"Another kgedit is writing {of}. Wait until it ends, or end it.") from error
        yield
