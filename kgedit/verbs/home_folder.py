"""The folder of a home and its store: everything that needs no graph."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import StoreError
from kgedit.html_tables import html_table
from kgedit.resources import home as default_home
from kgedit.resources import utf8_folder
from kgedit.wikidata.times import read_day

if TYPE_CHECKING:
    import networkx as nx

    from kgedit.store.snapshots import Snapshot

Date = str | datetime.date
"""A day, as a date or as YYYY-MM-DD."""


def read_date(date: Date) -> datetime.date:
    """Convert to a day.

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
    """Part of a home that is read from its store.

    Args:
        path: Home folder; None means `$KGEDIT_HOME`, else `./kgedit-data`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_home() if path is None else utf8_folder(path)

    def __repr__(self) -> str:
        return f"kgedit.Home({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Table of the snapshots, for notebooks."""
        counts = ("entities", "claims", "facts")
        rows = [
            (snapshot.name, *(snapshot.manifest[name] for name in counts), snapshot.manifest["source"]["name"])
            for snapshot in self.snapshots()
        ]
        return html_table(f"Home {self.path}", ("snapshot", *counts, "source"), rows)

    def snapshots(self) -> list[Snapshot]:
        """Snapshots in the store, oldest first."""
        from kgedit.store.disk import disk_errors
        from kgedit.store.snapshots import list_snapshots

        with disk_errors(self.path):
            return list_snapshots(self.path)

    def subgraph(
        self, item: str, *, depth: int = 1, date: Date, incoming: bool = False, max_facts: int = 100_000
    ) -> nx.MultiDiGraph:
        """Return the neighbourhood of an item in a snapshot as a networkx graph: every fact on a path from it.

        Reads the store; no server is needed.

        Args:
            item: Id of an item or a property.
            depth: Maximum path length in steps; 0 means the item alone.
            date: Day of the snapshot.
            incoming: Whether paths also go from an object to its subjects; a country has thousands of these.
            max_facts: Maximum number of facts.

        Returns:
            A graph with an edge from subject to object for each current fact, keyed by the property, with attributes
            property, property_label, rank, statement_id, start, end, point_in_time. Nodes are ids of entities, or V...
            for literals, with attributes distance (from the item), kind ("item", "property", "value" or "other"),
            label, description, redirect_target, and for literals value_type, unit, language, precision, calendar.
            Unknown attributes are left out. The attributes of the graph are the arguments.

        Raises:
            StoreError: if the snapshot is not loaded or lacks the item, or there are more than `max_facts` facts.
        """
        from kgedit.store.snapshots import open_snapshot
        from kgedit.store.subgraphs import subgraph

        snapshot = open_snapshot(self.path, read_date(date))
        return subgraph(snapshot, item, depth=depth, incoming=incoming, max_facts=max_facts)
