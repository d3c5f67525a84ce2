"""Atomic writing of files and folders by renaming, a lock for one writer at a time, and folders for unfinished work."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

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
    """Flush a finished folder to disk and replace another folder, which may not exist, with it.

    A symbolic link stays, and the folder that it leads to is replaced, which may be on another file system.
    """
    target = _behind_links(folder)
    if aside.parent != target.parent and folder.is_symlink():
        near = target.with_name(f".{target.name}.{os.getpid()}.aside")  # not that of `working_folder`, which is locked
        shutil.rmtree(near, ignore_errors=True)
        try:
            aside = Path(shutil.move(aside, near))
        except BaseException:
            shutil.rmtree(near, ignore_errors=True)
            raise
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    put_in_place(aside, target)
    shutil.rmtree(old, ignore_errors=True)


def _behind_links(folder: Path) -> Path:
    """Path of a folder without symbolic links; unlike `Path.resolve`, also if links lead in a circle."""
    return Path(os.path.realpath(folder))


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


@contextmanager
def working_folder(folder: Path) -> Iterator[Path]:
    """Create an empty folder beside a target; the caller fills and renames it (kgedit.store.files.replace_folder).

    Leftovers of an interrupted process are deleted first, and the folder is deleted at the end if it is still there.
    The operating system releases the lock when the process ends for any reason.

    Args:
        folder: The target; its parents are created. If it is a symbolic link, the folder is created beside what it
            leads to.

    Raises:
        StoreError: if another process is writing the same target.
    """
    target = _behind_links(folder)
    aside = target.with_name(f".{target.name}.aside")
    with _locked(target.with_name(f".{target.name}.lock"), folder):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(lock: Path, folder: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with lock.open("a", encoding="utf-8") as file:
            if not lock_descriptor(file.fileno(), blocking=False):
                raise StoreError(
                    f"Another kgedit process is writing {folder}. Nothing was changed. Wait until it ends and give the "
                    "command again, or name another folder."
                )
            if not _is_at(file.fileno(), lock):
                continue  # the last holder deleted the file between opening and locking
            try:
                yield
            finally:
                with suppress(OSError):  # Windows cannot delete open files; the next holder uses the same one
                    lock.unlink()
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
