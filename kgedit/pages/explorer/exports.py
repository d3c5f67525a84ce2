"""Exports of selected changes as timesteps, one after another in the background."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.pages.explorer import Explorer
from kgedit.timesteps.profiles import PROFILES
from kgedit.timesteps.selected import write_selection
from kgedit.timesteps.timestep import timestep_folder, timesteps_folder
from kgedit.wikidata.times import not_before

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class ExportTask:
    """A requested timestep.

    Attributes:
        number: Number from 1, in the order of requests.
        older: Date of the older snapshot, YYYY-MM-DD.
        newer: Date of the newer snapshot, YYYY-MM-DD.
        profile: One of PROFILES.
        only: File with the selection.
        out: Folder of the timestep.
        selected: Number of rows in the selection.
        state: "waiting", "running", "done" or "failed".
        message: Error message or summary of the result.
    """

    number: int
    older: str
    newer: str
    profile: str
    only: Path
    out: Path
    selected: int
    state: str = "waiting"
    message: str = ""

    @property
    def command(self) -> str:
        """Command that exports the same timestep."""
        parts = ["kgedit", "export-timestep", "--from", self.older, "--to", self.newer, "--profile", self.profile]
        return shlex.join([*parts, "--only", str(self.only), "--out", str(self.out)])


ExportTimestep = Callable[[ExportTask], str]
"""Exports the timestep of a task and returns a summary. Errors are shown on the page."""


class Exports:
    """Queue of requested timesteps.

    Args:
        explorer: The snapshots.
        export: Exports one timestep.
    """

    def __init__(self, explorer: Explorer, export: ExportTimestep) -> None:
        self._explorer, self._export = explorer, export
        self._lock, self._worker = threading.Lock(), ThreadPoolExecutor(1, "kgedit-export")
        self._tasks: dict[int, ExportTask] = {}

    def start(self, older: int, newer: int, selection: pa.Table, *, name: str, profile: str) -> ExportTask:
        """Write a selection and queue the export of its timestep.

        Args:
            older: Day number of the older snapshot.
            newer: Day number of the newer snapshot.
            selection: Table with the schema kgedit.timesteps.selected.SELECTION.
            name: Suffix of the timestep's folder and of the selection's file.
            profile: One of PROFILES.

        Raises:
            TimestepError: if the selection is empty, the profile or name is invalid, or the folder exists.
            StoreError: if a snapshot is not loaded.
        """
        if profile not in PROFILES:
            raise TimestepError(f"'{profile}' is not a profile. Profiles: {', '.join(PROFILES)}.")
        if not _NAME.fullmatch(name):
            raise TimestepError(f"'{name}' cannot be a name. Use up to 40 small letters, digits and hyphens.")
        if not selection.num_rows:
            raise TimestepError("Nothing is selected. Select changes, an item or a relation first.")
        old, new = self._explorer.snapshot(older), self._explorer.snapshot(newer)
        if older >= newer:
            raise TimestepError(not_before(old.name, new.name))
        timesteps = timesteps_folder(self._explorer.home)
        folder = timestep_folder(timesteps, older, newer, profile)
        out = folder.with_name(f"{folder.name}_{name}")
        with self._lock:
            if out.exists() or any(task.out == out and task.state != "failed" for task in self._tasks.values()):
                raise TimestepError(f"{out} exists. Give the timestep another name.")
            only = timesteps / "selections" / f"{out.name}.csv"
            write_selection(only, selection)
            task = ExportTask(len(self._tasks) + 1, old.name, new.name, profile, only, out, selected=selection.num_rows)
            self._tasks[task.number] = task
        self._worker.submit(self._make, task)
        return task

    def tasks(self) -> list[ExportTask]:
        """All requested timesteps, the latest first."""
        with self._lock:
            return sorted(self._tasks.values(), key=lambda task: -task.number)

    def close(self) -> None:
        """Start no further exports. A running export ends with the process and leaves no partial timestep."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _make(self, task: ExportTask) -> None:
        self._set(replace(task, state="running"))
        try:
            message = self._export(task)
        except Exception as error:  # shown on the page; the server continues
            self._set(replace(task, state="failed", message=str(error)))
        else:
            self._set(replace(task, state="done", message=message))

    def _set(self, task: ExportTask) -> None:
        with self._lock:
            self._tasks[task.number] = task
