"""Kinds of change, computed on request in the background and stored with the other derived files.

They cost more than the differences, because signals of each change are read from both snapshots. No view waits for
them.
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
        windows: Tables of differences, which show the kinds once they are computed.
    """

    def __init__(self, explorer: Explorer, windows: Windows) -> None:
        self._explorer, self._windows = explorer, windows
        self._lock, self._worker = threading.Lock(), ThreadPoolExecutor(1, "kgedit-kinds")
        self._states: dict[tuple[int, int], str] = {}

    def state(self, older: int, newer: int) -> str:
        """State of a window: "none" (not requested), "running", "done", or an error message."""
        if self._windows.kinds_file(older, newer).is_file():
            return "done"
        with self._lock:
            return self._states.get((older, newer), "none")

    def start(self, older: int, newer: int) -> str:
        """Start computing the kinds of a window unless that is done or running, and return the state.

        Raises:
            StoreError: if there is no such window.
        """
        self._windows.table_of(older, newer)
        if self.state(older, newer) in ("done", "running"):
            return self.state(older, newer)
        with self._lock:
            self._states[older, newer] = "running"
        self._worker.submit(self._work_out, older, newer)
        return "running"

    def close(self) -> None:
        """Start no further computation."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _work_out(self, older: int, newer: int) -> None:
        try:
            self._write(older, newer)
            self._windows.refresh(older, newer)
        except Exception as error:  # shown on the page; the server continues
            with self._lock:
                self._states[older, newer] = str(error)

    def _write(self, older: int, newer: int) -> None:
        changes = self._explorer.table(
            f"SELECT {', '.join(CHANGES.names)} FROM {self._windows.table_of(older, newer)} ORDER BY subject, property"
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
