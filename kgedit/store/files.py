"""Writing aside and renaming, so that a file or folder is either whole or not there; and one writer at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgedit.errors import StoreError
from kgedit.files import put_in_place, replace_file


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, in a folder that `replace_folder` puts in place; elsewhere use `replace_file`."""
    replace_file(path, text, durable=False)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file by JSON with a fixed order and layout, where `write_text` may be used."""
    write_text(path, json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """JSON with a fixed order and layout."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def replace_folder(aside: Path, folder: Path) -> None:
    """Put a finished folder, with its content on the disk, in place of another, which may not exist."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    put_in_place(aside, folder)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def only_writer(lock: Path, *, of: str) -> Iterator[None]:
    """Hold a lock file, which the system frees when its holder ends, however it ends.

    Raises:
        StoreError: if another process holds it.
    """
    try:
        import fcntl
    except ImportError:
        # Windows has no such locks; there, two writers at once are the user's to avoid.
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"Another kgedit is writing {of}. Wait until it ends, or end it.") from error
        yield
