"""Temporary folder in which a result is written before it is renamed, for one process at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from kgedit.errors import StoreError


@contextmanager
def working_folder(folder: Path) -> Iterator[Path]:
    """Create an empty folder beside a target; the caller fills and renames it (kgedit.store.files.replace_folder).

    Leftovers of an interrupted process are deleted first, and the folder is deleted at the end if it is still there.
    The operating system releases the lock when the process ends for any reason.

    Args:
        folder: The target; its parents are created.

    Raises:
        StoreError: if another process is writing the same target.
    """
    aside = folder.with_name(f".{folder.name}.aside")
    with _locked(folder.with_name(f".{folder.name}.lock"), folder):
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
