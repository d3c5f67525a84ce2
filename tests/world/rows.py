"""Rows of snapshots that can be compared where the order of the dump, or the number of buckets, differs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.store.snapshots import Snapshot, SnapshotTable


def rows_of(snapshot: Snapshot, name: SnapshotTable) -> list[dict[str, Any]]:
    """Rows of a table; facts with the ids of statements instead of their places, which depend on order and buckets."""
    rows = _read(snapshot, name)
    if name == "entities":
        return rows
    ids = {row["place"]: row["statement_id"] for row in _read(snapshot, "claims")}
    for row in rows:
        row.pop("place", None)
        if name == "facts":
            row["statement_place"] = ids[row["statement_place"]]
            row["statement_places"] = [ids[place] for place in row["statement_places"] or ()]
    return rows


def _read(snapshot: Snapshot, name: SnapshotTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.concat_tables(map(pq.read_table, snapshot.files(name))).to_pylist()
    return rows
