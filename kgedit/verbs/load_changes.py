"""`load-changes`: takes what changed between two snapshots of a large store, such as a cluster's, into this home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.verbs.graph import ForGraph
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import Day, ExistingFolder, HomeVerb, argument, flag, options

if TYPE_CHECKING:
    from kgedit.store.snapshots import Snapshot


@options
class LoadChanges(ForGraph, HomeVerb["tuple[Snapshot, Snapshot]"]):
    """Take what changed between two snapshots out of a larger store.

    What an export between them reads comes along. The home must contain no other snapshots. The same command repeats
    an interrupted one.
    """

    store: ExistingFolder = argument(kw_only=False, help="Home folder of the other store.")
    older: Day = flag("--from", kw_only=False, help="Day of the older snapshot.")
    newer: Day = flag("--to", kw_only=False, help="Day of the newer snapshot.")
    graph: bool = flag(default=True, group="Output", help="Also update the graph.")

    def run(self, home: Path) -> tuple[Snapshot, Snapshot]:
        """Take it.

        Returns:
            The older and the newer snapshot, reduced to what changed and its surroundings.

        Raises:
            StoreError: if the store lacks a snapshot, or the home contains other snapshots.
            DamagedFileError: if a file of the other store is damaged.
            GraphError: if the graph cannot be written.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.changes_only import take_changes

        old, new = (open_snapshot(Path(self.store), read_date(day)) for day in (self.older, self.newer))
        taken = take_changes(home, old, new)
        if self.graph:
            self.update(home)
        return taken
