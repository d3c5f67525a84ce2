"""Timesteps of a home: exports and opens them, and checks edits against its snapshots."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.resources import use_home
from kgedit.verbs.export_timestep import ExportAll, ExportTimestep
from kgedit.verbs.home_folder import Date, HomeFolder, read_date
from kgedit.verbs.options import method_of

if TYPE_CHECKING:
    from kgedit.timesteps.audit import Audit
    from kgedit.timesteps.timestep import Timestep


class HomeTimesteps(HomeFolder):
    """Part of a home that exports timesteps from pairs of its snapshots."""

    export_timestep = method_of(ExportTimestep)
    export_all = method_of(ExportAll)

    def timestep(self, older: Date, newer: Date, *, profile: str = "wikibigedit") -> Timestep:
        """Open the timestep that `export_timestep` wrote into this home.

        Raises:
            TimestepError: if there is none.
        """
        from kgedit.timesteps.timestep import Timestep
        from kgedit.wikidata.times import day_number

        days = (day_number(read_date(older)), day_number(read_date(newer)))
        with use_home(self.path):
            return Timestep.open(self._timestep_folder(*days, profile))

    def audit(self, path: str | Path, older: Date, newer: Date) -> Audit:
        """Check a file of edits, or a timestep, against two snapshots; does not need a graph.

        Args:
            path: A file in any form that `run` accepts, or a timestep: its folder, its name in this home, or its dates
                (2021-01-04..2023-02-27).
            older: Day of the snapshot in which the edits must not hold yet.
            newer: Day of the snapshot in which they must hold.

        Raises:
            StoreError: if a snapshot is not loaded.
            TimestepError: if the file cannot be read, or the dates are reversed.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots, open_snapshot
        from kgedit.timesteps.audit import audit_edits
        from kgedit.timesteps.edit_files import open_edits

        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        earlier = [snapshot for snapshot in list_snapshots(self.path) if snapshot.date < old.date]
        spill = self.path / "snapshots" / f".audit-{os.getpid()}"
        with use_home(self.path), disk_errors(self.path, again="give the same command again"):
            return audit_edits(open_edits(Path(path)), old, new, earlier, spill=spill)

    def _timestep_folder(self, older: int, newer: int, profile: str) -> Path:
        from kgedit.timesteps.timestep import timestep_folder, timesteps_folder

        return timestep_folder(timesteps_folder(self.path), older, newer, profile)
