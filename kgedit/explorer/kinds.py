"""Kinds of change, worked out when they are asked for, beside the answers, and kept with the other derived files.

They cost more than the differences (signals of each change are read from both snapshots), so no view waits for them.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq

from kgedit.explorer.differences import Windows
from kgedit.explorer.explorer import Explorer
from kgedit.files import put_in_place
from kgedit.timesteps.kinds import CHANGES, describe_kinds


class Kinds:
    """The kinds of the changes between two snapshots.

    Args:
        explorer: The snapshots.
        windows: Their differences, which take the kinds up when they are there.
    """

    def __init__(self, explorer: Explorer, windows: Windows) -> None:
        self._explorer, self._windows = explorer, windows
        self._lock, self._worker = threading.Lock(), ThreadPoolExecutor(1, "kgedit-kinds")
        self._said: dict[tuple[int, int], str] = {}

    def state(self, older: int, newer: int) -> str:
        """In words: "none" (not asked for), "running", "done", or why they could not be worked out."""
        if self._windows.kinds_file(older, newer).is_file():
            return "done"
        with self._lock:
            return self._said.get((older, newer), "none")

    def start(self, older: int, newer: int) -> str:
        """Have them worked out, unless they are already; returns the state.

        Raises:
            StoreError: if there is no such window.
        """
        self._windows.table_of(older, newer)
        if self.state(older, newer) in ("done", "running"):
            return self.state(older, newer)
        with self._lock:
            self._said[older, newer] = "running"
        self._worker.submit(self._work_out, older, newer)
        return "running"

    def close(self) -> None:
        """Start nothing more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _work_out(self, older: int, newer: int) -> None:
        try:
            self._write(older, newer)
            self._windows.refresh(older, newer)
        except Exception as error:  # told to whoever asked; the server goes on
            with self._lock:
                self._said[older, newer] = str(error)

    def _write(self, older: int, newer: int) -> None:
        changes = self._explorer.table(
            f"SELECT {', '.join(CHANGES.names)} FROM {self._windows.table_of(older, newer)} ORDER BY subject, property"  # noqa: S608 - our own names
        )
        target = self._windows.kinds_file(older, newer)
        target.parent.mkdir(exist_ok=True)
        found = describe_kinds(
            self._explorer.snapshot(older),
            self._explorer.snapshot(newer),
            [one for one in self._explorer.snapshots if one.date < older],
            changes.cast(CHANGES),
            spill=target.with_suffix(f".spill-{os.getpid()}"),
        )
        aside = target.with_suffix(".aside")
        pq.write_table(found.select(["subject", "property", "kind", "confidence"]), aside)
        put_in_place(aside, target)
