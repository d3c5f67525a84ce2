"""`drop-snapshot`: removes a snapshot from the store and the graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.verbs.graph import ForGraph
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.options import Day, HomeVerb, argument, flag, options

if TYPE_CHECKING:
    from kgedit.graph.projection import GraphContent


@options
class DropSnapshot(ForGraph, HomeVerb["GraphContent | None"]):
    """Remove a snapshot from the store and the graph.

    Timesteps exported from it are kept. The same command resumes an interrupted one.
    """

    date: Day = argument(kw_only=False, complete="snapshot_dates", help="Day of the snapshot.")
    graph: bool = flag(default=True, group="Output", help="Also rebuild the graph without it.")

    def run(self, home: Path) -> GraphContent | None:
        """Remove it.

        Returns:
            Content of the graph afterwards; None if it was not changed, or was emptied because no snapshot is left.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import drop_snapshot

        with disk_errors(home):
            left = drop_snapshot(home, read_date(self.date))
        if self.graph and left:
            return self.update(home, rebuild=True)
        if self.graph:
            from kgedit.graph.projection import empty_graph

            empty_graph(home)
        return None
