"""`drop-snapshot`, `relations`, `cycles` and `verify`: remove a snapshot, inspect one, and check a home's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.progress import Steps
from kgedit.verbs.graph import ForGraph
from kgedit.verbs.home_folder import read_date
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import Day, HomeVerb, argument, flag, options, python_only

if TYPE_CHECKING:
    import pyarrow as pa

    from kgedit.graph.projection import GraphContent
    from kgedit.verbs.verifying import VerifiedPart


@options
class DropSnapshot(ForGraph, HomeVerb["GraphContent | None"]):
    """Remove a snapshot from the store and the graph.

    Timesteps exported from it are kept. The same command resumes an interrupted one.
    """

    date: Day = argument(kw_only=False, complete="snapshot_dates", help="Day of the snapshot.")
    graph: bool = flag(default=True, group="Output", help="Also rebuild the graph without it.")

    def run(self, home: Path) -> GraphContent | None:
        """Remove the snapshot.

        Returns:
            Content of the graph afterwards; None if it was not changed, or was emptied because no snapshot is left.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import drop_snapshot

        self.refuse_unused_scope(graph=self.graph)
        with disk_errors(home):
            left = drop_snapshot(home, read_date(self.date))
        if self.graph and left:
            return self.update(home, rebuild=True)
        if self.graph:
            from kgedit.graph.projection import empty_graph

            empty_graph(home)
        return None


@options
class Relations(HomeVerb["pa.Table"]):
    """List how functional each property of a snapshot is.

    Each property has two verdicts: MEASURED by the share of its subjects with exactly one current value, and the share
    of its statements with a start, an end or a point in time; DECLARED by the single-value constraints of Wikidata's
    editors, and whether their values are separated by a time. A verdict is temporal (one value after another), single
    (one value) or several. `export-timestep --functional-by` chooses between them. Reads the store; no server is
    needed.
    """

    date: Day = flag(kw_only=False, complete="snapshot_dates", help="Date of the snapshot.")
    min_subjects: int = flag(default=5, ge=1, help="Skip properties with fewer subjects.")
    min_functional: float = flag(
        default=0.95, ge=0, le=1, help="Share of subjects with one current value that makes a property functional."
    )
    min_dated: float = flag(
        default=0.5, ge=0, le=1, help="Share of dated statements that makes a functional property temporal."
    )
    disagreeing: bool = flag(default=False, help="Only properties whose two verdicts differ.")

    def run(self, home: Path) -> pa.Table:
        """Measure the properties.

        Returns:
            Columns property, property_label, subjects, functional (share of the subjects with exactly one current
            value), dated (share of the facts with a start or an end time), dated_claims (share of all statements with a
            start, an end or a point in time), the verdicts measured and declared ("temporal", "single" or "several"),
            constraints (single-value constraints on Wikidata), temporal (whether their values are separated by a time)
            and exceptions (whether they list exceptions).

        Raises:
            StoreError: if the snapshot is not loaded, or a share is invalid.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.timesteps.engines.functionality import Bounds, measure_functionality

        bounds = Bounds(subjects=self.min_subjects, functional=self.min_functional, dated=self.min_dated)
        snapshot = open_snapshot(home, read_date(self.date))
        return measure_functionality(snapshot, bounds=bounds, disagreeing=self.disagreeing)


@options
class Cycles(HomeVerb["pa.Table"]):
    """List cycles among classes and among containers.

    Returns one row per member of a cycle, by subclass of (P279) and by containment (P131, P171, P279, P361 and P527).
    Filters and kinds of change follow these chains; in a cycle each member counts as below, or within, every other.
    Reads the store; no server is needed.
    """

    date: Day = flag(kw_only=False, complete="snapshot_dates", help="Date of the snapshot.")

    def run(self, home: Path) -> pa.Table:
        """Find the cycles.

        Returns:
            Columns relation ("subclass of" or "containment"), cycle (the member with the smallest number), id, label.

        Raises:
            StoreError: if the snapshot is not loaded.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.store.subgraphs import cycles

        return cycles(open_snapshot(home, read_date(self.date)))


@options
class Verify(HomeVerb["list[VerifiedPart]"]):
    """Check that no file of a home is damaged.

    Reads every snapshot, timestep, stream, run, memory and cache in HOME ($KGEDIT_HOME by default) and compares it with
    the checksum recorded when it was written. Other commands check a file before they first use it, and trust large
    files whose size and time have not changed since; this command reads everything. The exit code is 1 if a file is
    damaged.
    """

    record: bool = flag(
        default=False, help="Record checksums for snapshots and timesteps that have none, if they can be decoded."
    )
    progress: Steps | None = python_only(default=None, help="Progress callback.")

    def run(self, home: Path) -> list[VerifiedPart]:
        """Read and compare.

        Returns:
            One row per snapshot, timestep, run and so on.
        """
        from kgedit.store.disk import disk_errors
        from kgedit.verbs.verifying import verify_home

        with disk_errors(home):
            report = (self.progress or step_line)("Reading the home", 1000, "parts")
            return verify_home(home, record=self.record, progress=report)
