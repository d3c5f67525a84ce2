"""Kinds of change of a file's edits: a row can be a valid change without being an update in the world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.proportions import wilson_interval
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.kinds import describe_kinds

KINDS_OF_ROWS = pa.schema(
    [
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("of", pa.int64()),  # rows that are valid
        ("share", pa.float64()),
        ("low", pa.float64()),  # 95 % interval of the share
        ("high", pa.float64()),
        ("confidence", pa.float64()),  # mean over these rows, in [0, 1]
    ]
)
"""Valid rows by kind of change, the most frequent kind first."""

_CHANGED = """
    WITH meant AS (
        SELECT DISTINCT subject, property FROM edit_verdict WHERE subject IS NOT NULL AND property IS NOT NULL
    ), before AS (
        SELECT subject, property, list(DISTINCT object ORDER BY object) AS objects
        FROM old_facts SEMI JOIN meant USING (subject, property) GROUP BY ALL
    ), now AS (
        SELECT subject, property, list(DISTINCT object ORDER BY object) AS objects
        FROM new_facts SEMI JOIN meant USING (subject, property) GROUP BY ALL
    )
    SELECT subject, property, coalesce(before.objects, []) AS old_objects, coalesce(now.objects, []) AS new_objects
    FROM before FULL JOIN now USING (subject, property)
    WHERE before.objects IS DISTINCT FROM now.objects ORDER BY subject, property
"""


def find_kinds(
    connection: duckdb.DuckDBPyConnection, old: Snapshot, new: Snapshot, earlier: Sequence[Snapshot], *, spill: Path
) -> None:
    """Create ``edit_kind`` (subject, property, kind, confidence): changes of the edits' subjects and properties.

    Args:
        connection: With the tables of judge_edits.
        old: The older snapshot.
        new: The newer snapshot.
        earlier: Loaded snapshots before the older one; a value of one of them is a revert.
        spill: Folder for data that does not fit in memory; it is deleted.
    """
    changed = connection.sql(_CHANGED).to_arrow_table()
    connection.register("kinds_found", describe_kinds(old, new, earlier, changed, spill=spill))
    connection.execute("CREATE TABLE edit_kind AS SELECT subject, property, kind, confidence FROM kinds_found")
    connection.unregister("kinds_found")


def count_kinds(rows: pa.Table) -> pa.Table:
    """Count valid rows by kind.

    Args:
        rows: Table with the schema kgedit.timesteps.audit.result.ROWS.

    Returns:
        A table with the schema KINDS_OF_ROWS.
    """
    confidences: dict[str, list[float]] = {}
    valid = [
        row for row in rows.select(["verdict", "kind", "kind_confidence"]).to_pylist() if row["verdict"] == "valid"
    ]
    for row in valid:
        if row["kind"] is not None:
            confidences.setdefault(row["kind"], []).append(row["kind_confidence"])
    counted = [_counted(kind, found, len(valid)) for kind, found in confidences.items()]
    counted.sort(key=lambda one: (-one["rows"], one["kind"]))
    return pa.Table.from_pylist(counted, schema=KINDS_OF_ROWS)


def _counted(kind: str, confidences: list[float], valid: int) -> dict[str, Any]:
    rows = len(confidences)
    low, high = wilson_interval(rows, valid)
    return {
        "kind": kind,
        "rows": rows,
        "of": valid,
        "share": round(rows / valid, 6),
        "low": round(low, 6),
        "high": round(high, 6),
        "confidence": round(sum(sorted(confidences)) / rows, 6),
    }
