"""Changes between any two snapshots: filtered, counted and paged, with their kinds."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import StoreError
from kgedit.files import put_in_place
from kgedit.pages.explorer import Explorer
from kgedit.pages.explorer.indexes import manifest_hash
from kgedit.store.engine import literal
from kgedit.store.files import only_writer
from kgedit.timesteps.kinds import CHANGES, WindowChanges, describe_kinds
from kgedit.wikidata.times import not_before

FACETS = {
    "relation": "property",
    "act": "act",
    "value": "content",
    "subject": "presence",
    "year": "year",
    "kind": "kind",
}
"""Filters of changes, and their columns."""

ORDERS = {
    "popular": "popularity DESC, subject, property",
    "relation": "property[2:]::BIGINT, popularity DESC, subject",
    "new": "year DESC NULLS LAST, popularity DESC, subject, property",
}
"""Orders, and their SQL."""

_NO_KINDS = """
    (SELECT NULL::VARCHAR AS subject, NULL::VARCHAR AS property, NULL::VARCHAR AS kind, NULL::DOUBLE AS confidence
     WHERE false)
"""

_MOST_WINDOWS = 6
"""Windows whose changes stay in memory, the most recently opened ones: each holds a row per change."""
_MOST_VALUES = 300  # of a facet, the most frequent ones: more than a reader scrolls through

_ROW = (
    *("subject", "subject_label", "property", "property_label", "old_objects", "old_labels", "old_times"),
    *("new_objects", "new_labels", "new_times", "act", "presence", "year", "kind", "confidence", "popularity"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters of changes.

    Attributes:
        text: Part of an id or label of the subject, relation or value; "" means any.
        chosen: Accepted values by facet (FACETS); a facet without values accepts everything.
    """

    text: str = ""
    chosen: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.chosen) - set(FACETS))
        if unknown:
            raise StoreError(f"Changes cannot be filtered by {', '.join(unknown)}. Filters: {', '.join(FACETS)}.")


@dataclass(frozen=True, slots=True)
class Differences:
    """Changes between two snapshots.

    Attributes:
        total: Number of changes.
        found: Number of changes that pass the filters.
        rows: One page of them, in order: subject, property, objects and labels of both sides, act, presence of the
            subject, year of the newest value, kind and its confidence if computed, popularity.
        facets: Columns facet, value, label, count; the counts of a facet apply the filters of the other facets.
    """

    total: int
    found: int
    rows: pa.Table
    facets: pa.Table


class Windows:
    """Tables of changes between two snapshots; recent ones are cached. Thread-safe."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer, self._lock = explorer, threading.Lock()
        self._made: OrderedDict[tuple[int, int], str] = OrderedDict()

    def differences(
        self, older: int, newer: int, filters: Filters, *, order: str = "popular", offset: int = 0, limit: int = 30
    ) -> Differences:
        """Changes from one snapshot to another, filtered, with counts.

        Args:
            older: Day number of the older snapshot.
            newer: Day number of the newer snapshot.
            filters: Filters to apply.
            order: One of ORDERS.
            offset: Number of rows to skip.
            limit: Maximum number of rows.

        Raises:
            StoreError: if a date is not loaded, the dates are reversed, or the order is unknown.
        """
        if order not in ORDERS:
            raise StoreError(f"'{order}' is not an order. Orders: {', '.join(ORDERS)}.")
        name = self.table_of(older, newer)
        judged, parameters = _judged(name, filters)
        passes = " AND ".join(f"ok_{facet}" for facet in FACETS)
        facets = self._explorer.table(f"WITH judged AS MATERIALIZED ({judged}) {_counts()}", parameters)
        rows = self._explorer.table(
            f"SELECT {', '.join(_ROW)} FROM ({judged}) WHERE {passes} ORDER BY {ORDERS[order]} "
            "LIMIT $limit OFFSET $offset",
            parameters | {"limit": limit, "offset": offset},
        )
        counts = self._explorer.table(
            f"SELECT (SELECT count(*) FROM {name}) AS total, (SELECT count(*) FROM ({judged}) WHERE {passes}) AS found",
            parameters,
        ).to_pylist()[0]
        return Differences(counts["total"], counts["found"], rows, facets)

    def pairs(self, older: int, newer: int, filters: Filters) -> pa.Table:
        """Subject and property of every change that passes the filters."""
        judged, parameters = _judged(self.table_of(older, newer), filters)
        passes = " AND ".join(f"ok_{facet}" for facet in FACETS)
        return self._explorer.table(
            f"SELECT subject, property FROM ({judged}) WHERE {passes} ORDER BY subject, property",
            parameters,
        )

    def kinds_file(self, older: int, newer: int) -> Path:
        """File with the kinds of a window; its name depends on both snapshots and all earlier ones."""
        known = "".join(manifest_hash(one) for one in self._explorer.snapshots if one.date <= newer)
        mark = hashlib.sha256(known.encode()).hexdigest()[:12]
        return self._explorer.indexes.kinds / f"{older}_{newer}_{mark}.parquet"

    def refresh(self, older: int, newer: int) -> None:
        """Rebuild the table of a window after its kinds were computed."""
        with self._lock:
            if (older, newer) in self._made:
                self._make(self._made[older, newer], older, newer)

    def table_of(self, older: int, newer: int) -> str:
        """Name of a table with all changes of a window, which is created if necessary."""
        old, new = self._explorer.snapshot(older), self._explorer.snapshot(newer)
        if older >= newer:
            raise StoreError(not_before(old.name, new.name))
        name, key = f"window_{older}_{newer}", (older, newer)
        with self._lock:
            if key not in self._made:
                self._make(name, older, newer)
            self._made[key] = name
            self._made.move_to_end(key)
            while len(self._made) > _MOST_WINDOWS:
                _, dropped = self._made.popitem(last=False)
                self._explorer.run(f"DROP TABLE {dropped}")
        return name

    def _make(self, name: str, older: int, newer: int) -> None:
        index = self._explorer.indexes.window(older, newer)
        if not index.is_fresh:
            with only_writer(index.folder.with_name(f".{index.folder.name}.lock"), of=str(index.folder)):
                index.make()
        file = self.kinds_file(older, newer)
        kinds = f"(FROM {literal(file)})" if file.is_file() else _NO_KINDS
        self._explorer.run(
            f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {literal(index.file('differences'))} "
            f"LEFT JOIN {kinds} USING (subject, property)"
        )


def _judged(table: str, filters: Filters) -> tuple[str, dict[str, Any]]:
    """SQL of the changes that contain the text, with a column per facet that it passes, and the query's parameters."""
    parameters: dict[str, Any] = {}
    columns = []
    for facet, column in FACETS.items():
        values = list(filters.chosen.get(facet, ()))
        if values:
            parameters[facet] = values
        columns.append(f"{f'coalesce(list_contains(${facet}, {column}), false)' if values else 'true'} AS ok_{facet}")
    held = "true"
    if filters.text.strip():
        parameters["text"] = filters.text.strip()
        held = "contains(words, strip_accents(lower($text)))"
    return f"SELECT *, {', '.join(columns)} FROM {table} WHERE {held}", parameters


def _counts() -> str:
    """SQL that counts each facet's values among the rows that pass the other facets."""
    parts = []
    for facet, column in FACETS.items():
        others = " AND ".join(f"ok_{other}" for other in FACETS if other != facet)
        label = "any_value(property_label)" if facet == "relation" else "NULL"
        parts.append(
            f"(SELECT '{facet}' AS facet, {column} AS value, {label} AS label, count(*) AS count FROM judged "
            f"WHERE {others} AND {column} IS NOT NULL AND {column} <> '' GROUP BY {column} "
            f"ORDER BY count DESC, value LIMIT {_MOST_VALUES})"
        )
    return " UNION ALL ".join(parts) + " ORDER BY facet, count DESC, value"


# They cost more than the differences, because signals of each change are read from both snapshots. No view waits for
# them.


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
        with self._lock:
            known = self._states.get((older, newer), "none")
        # While they run, the file may be there already, but the window's table is still without them.
        return "done" if known == "none" and self._windows.kinds_file(older, newer).is_file() else known

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
            with self._lock:
                self._states[older, newer] = "done"
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
            WindowChanges(
                self._explorer.snapshot(older),
                self._explorer.snapshot(newer),
                [one for one in self._explorer.snapshots if one.date < older],
                changes.cast(CHANGES),
            ),
            spill=target.with_suffix(f".spill-{os.getpid()}"),
        )
        aside = target.with_suffix(".aside")
        pq.write_table(found.select(["subject", "property", "kind", "confidence"]), aside)
        put_in_place(aside, target)
