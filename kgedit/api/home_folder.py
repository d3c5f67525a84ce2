"""The folder of a home and its store: what needs no graph."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.api.live_progress import step_line
from kgedit.errors import StoreError
from kgedit.html_tables import html_table
from kgedit.records.days import read_day
from kgedit.resources import home as default_home
from kgedit.resources import utf8_folder

if TYPE_CHECKING:
    import networkx as nx
    import pyarrow as pa

    from kgedit.api.verifying import VerifiedPart
    from kgedit.store.snapshots import Snapshot

Date = str | datetime.date
"""A day, also as YYYY-MM-DD."""

Steps = Callable[[str, int, str], Callable[[int, int], None]]
"""Told a step's title, total and unit; returns what is called with how much of the total, and how many units, are done.
"""


def read_date(date: Date) -> datetime.date:
    """A day.

    Raises:
        StoreError: if a text is not a day.
    """
    if isinstance(date, datetime.datetime):
        return date.date()
    if isinstance(date, datetime.date):
        return date
    try:
        return read_day(date)
    except ValueError as error:
        raise StoreError(str(error)) from error


class HomeFolder:
    """The part of a home that is read from its store.

    Args:
        path: The folder; None for `$KGEDIT_HOME`, else `./kgedit-data`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_home() if path is None else utf8_folder(path)

    def __repr__(self) -> str:
        return f"kgedit.Home({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the snapshots."""
        counts = ("entities", "claims", "facts")
        rows = [
            (snapshot.name, *(snapshot.manifest[name] for name in counts), snapshot.manifest["source"]["name"])
            for snapshot in self.snapshots()
        ]
        return html_table(f"Home {self.path}", ("snapshot", *counts, "source"), rows)

    def snapshots(self) -> list[Snapshot]:
        """The snapshots in the store, oldest first."""
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots

        with disk_errors(self.path):
            return list_snapshots(self.path)

    def verify(self, *, record: bool = False, progress: Steps | None = None) -> list[VerifiedPart]:
        """Compare every file of the home with its checksum; one row for each snapshot, timestep, run and so on.

        Args:
            record: Whether snapshots and timesteps that have no checksums get some, where they can be decoded.
            progress: Progress callback.
        """
        from kgedit.api.verifying import verify_home
        from kgedit.store.disk import disk_errors

        with disk_errors(self.path):
            report = (progress or step_line)("Reading the home", 1000, "parts")
            return verify_home(self.path, record=record, progress=report)

    def relations(
        self,
        date: Date,
        *,
        min_subjects: int = 5,
        min_functional: float = 0.95,
        min_dated: float = 0.5,
        disagreeing: bool = False,
    ) -> pa.Table:
        """How functional each property of a snapshot is, by its statements and by Wikidata's constraints.

        Reads the store; no server is needed.

        Args:
            date: Day of the snapshot.
            min_subjects: Skip properties with fewer subjects.
            min_functional: Share of the subjects with one current value from which a property counts as functional.
            min_dated: Share of dated statements from which such a property counts as temporal functional.
            disagreeing: Only the properties of which the verdicts differ.

        Returns:
            Columns property, property_label, subjects, functional (share of the subjects with one current value), dated
            (share of the facts with a start or an end time), dated_claims (of all statements, those with a point in
            time too), the verdicts measured and declared ("temporal", "single" or "several"), constraints
            (single-value constraints on Wikidata), temporal (whether a time separates their values) and exceptions
            (whether they name some).

        Raises:
            StoreError: if the snapshot is not loaded, or a share is none.
        """
        from kgedit.engines.functionality import Bounds, measure_functionality
        from kgedit.store.snapshots import open_snapshot

        bounds = Bounds(subjects=min_subjects, functional=min_functional, dated=min_dated)
        return measure_functionality(open_snapshot(self.path, read_date(date)), bounds=bounds, disagreeing=disagreeing)

    def subgraph(
        self, item: str, *, depth: int = 1, date: Date, incoming: bool = False, max_facts: int = 100_000
    ) -> nx.MultiDiGraph:
        """What lies around an item in a snapshot, as a networkx graph: every fact on a path from it.

        Reads the store; no server is needed.

        Args:
            item: Id of an item or a property.
            depth: Longest path in steps; 0 for the item alone.
            date: Day of the snapshot.
            incoming: Whether paths also go from an object to its subjects; of a country those are thousands.
            max_facts: Bound on the facts.

        Returns:
            An edge from subject to object for each current fact, with the property as its key, and with property,
            property_label, rank, statement_id, start, end, point_in_time. Nodes are ids of entities, or V... of
            literals, with distance (from the item), kind ("item", "property", "value" or "other"), label, description,
            redirect_target, and of literals value_type, unit, language, precision, calendar. What is not known is left
            out. The graph's own attributes are the arguments.

        Raises:
            StoreError: if the snapshot is not loaded or lacks the item, or the facts are more than `max_facts`.
        """
        from kgedit.api.subgraphs import subgraph
        from kgedit.store.snapshots import open_snapshot

        snapshot = open_snapshot(self.path, read_date(date))
        return subgraph(snapshot, item, depth=depth, incoming=incoming, max_facts=max_facts)

    def cycles(self, date: Date) -> pa.Table:
        """Circles in a snapshot, by subclass of and by containment: one row for each member of each.

        Filters and kinds of change follow these chains; each member of a circle counts as below, or within, all others.

        Args:
            date: Day of the snapshot.

        Returns:
            Columns relation ("subclass of" or "containment"), cycle (the member with the smallest number), id, label.

        Raises:
            StoreError: if the snapshot is not loaded.
        """
        from kgedit.api.subgraphs import cycles
        from kgedit.store.snapshots import open_snapshot

        return cycles(open_snapshot(self.path, read_date(date)))
