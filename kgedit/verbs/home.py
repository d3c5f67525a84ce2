"""A home: the folder with snapshots, timesteps, and the graph built from the snapshots."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kgedit.errors import names_extra
from kgedit.progress import Steps
from kgedit.resources import use_home
from kgedit.verbs.audit import AuditEdits
from kgedit.verbs.export_timestep import ExportAll, ExportTimestep
from kgedit.verbs.graph import StartGraph, UpdateGraph
from kgedit.verbs.home_folder import Date, HomeFolder, read_date
from kgedit.verbs.load_dump import LoadChanges, LoadDump, LoadDumpAsOf
from kgedit.verbs.options import method_of
from kgedit.verbs.query import Browse, Find, RunQuery
from kgedit.verbs.snapshots import Cycles, DropSnapshot, Relations, Verify
from kgedit.wikidata.times import day_number

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.graph.state import GraphStatus
    from kgedit.timesteps.timestep import Timestep


class HomeGraph(HomeFolder):
    """Part of a home that is its graph.

    Methods that need the graph start the home's own server if none is running, or use that of `KGEDIT_GRAPH_URI`.
    """

    update_graph = method_of(UpdateGraph)
    start_graph = method_of(StartGraph)

    @names_extra
    def empty_graph(self) -> None:
        """Remove everything from the graph; the store is kept."""
        from kgedit.graph.projection import empty_graph

        empty_graph(self.path)

    @names_extra
    def changes(self, older: Date, newer: Date, *, kinds: bool = False) -> pa.Table:
        """Compute subjects and properties whose current objects differ between two snapshots, one row each.

        The columns are those of the query `changed_edges`: subject, property and objects by id and by label.

        Args:
            older: Day of the older snapshot.
            newer: Day of the newer snapshot.
            kinds: Whether to add columns kind, kind_confidence and kind_signals (`docs/kinds-of-change.md`).

        Raises:
            GraphError: if the graph lacks a snapshot, or the dates are reversed.
            StoreError: if kinds are requested and the store lacks a snapshot.
        """
        from kgedit.graph.queries import check_dates
        from kgedit.graph.reading import changed_edges
        from kgedit.graph.state import open_finished

        window = {"from": day_number(read_date(older)), "to": day_number(read_date(newer))}
        with open_finished(self.path) as graph:
            check_dates(window, graph.snapshot_dates())
            changes = changed_edges(graph, older=window["from"], newer=window["to"])
        return self._with_kinds(changes, older, newer) if kinds else changes

    def _with_kinds(self, changes: pa.Table, older: Date, newer: Date) -> pa.Table:
        from kgedit.store.engine import select
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.kinds import WindowChanges, describe_kinds

        old, new = (open_snapshot(self.path, read_date(date)) for date in (older, newer))
        earlier = [snapshot for snapshot in self.snapshots() if snapshot.date < old.date]
        with TemporaryDirectory() as spill:
            found = describe_kinds(WindowChanges(old, new, earlier, changes), spill=Path(spill))
        return select(
            "SELECT changes.*, kind, confidence AS kind_confidence, signals AS kind_signals "
            "FROM changes JOIN found USING (subject, property) ORDER BY subject, property",
            changes=changes,
            found=found,
        )

    @names_extra
    def graph_status(self) -> GraphStatus:
        """Report whether the graph's server runs, its address, and the content of the graph. Starts nothing.

        Raises:
            GraphError: if a server that should answer does not.
        """
        from kgedit.graph.state import read_graph_status

        return read_graph_status(self.path)

    @names_extra
    def stop_graph(self) -> bool:
        """Stop the home's own graph server; False if none was running."""
        from kgedit.graph.managed.server import ManagedServer

        return ManagedServer(self.path).stop()


__all__ = ["Date", "Home", "Steps", "folder_of", "read_date"]


class Home(HomeGraph):
    """A folder of snapshots, with the graph and the timesteps created from them.

    Nothing is read, written or started before a method needs it. Methods that need the graph start the home's own
    server if none is running, or use that of `KGEDIT_GRAPH_URI`.

    Args:
        path: Home folder; None means `$KGEDIT_HOME`, else `./kgedit-data`.
    """

    load_dump = method_of(LoadDump)
    load_dump_as_of = method_of(LoadDumpAsOf)
    load_changes = method_of(LoadChanges)
    drop_snapshot = method_of(DropSnapshot)
    verify = method_of(Verify)
    relations = method_of(Relations)
    cycles = method_of(Cycles)
    query = method_of(RunQuery, name="query")
    find = method_of(Find)
    browser_page = method_of(Browse, name="browser_page")
    audit = method_of(AuditEdits, name="audit")
    export_timestep = method_of(ExportTimestep)
    export_all = method_of(ExportAll)

    def timestep(self, older: Date, newer: Date, *, profile: str = "wikibigedit") -> Timestep:
        """Open the timestep that `export_timestep` wrote into this home.

        Raises:
            TimestepError: if there is none.
        """
        from kgedit.timesteps.timestep import Timestep

        days = (day_number(read_date(older)), day_number(read_date(newer)))
        with use_home(self.path):
            return Timestep.open(self._timestep_folder(*days, profile))

    def _timestep_folder(self, older: int, newer: int, profile: str) -> Path:
        from kgedit.timesteps.timestep import timestep_folder, timesteps_folder

        return timestep_folder(timesteps_folder(self.path), older, newer, profile)


def folder_of(home: Home | str | Path | None) -> Path | None:
    """Folder of a home given as an object or a path; None if there is none."""
    if home is None:
        return None
    return home.path if isinstance(home, Home) else Path(home)
