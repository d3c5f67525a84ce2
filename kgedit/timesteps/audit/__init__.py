"""Audits a file of edits against two snapshots: finds the invalid rows, and the reasons.

The result has a verdict for every row, and counts by reason, with intervals. A row can be a valid change without being
an update in the world, so its kind is counted as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgedit.clustered_statistics import wilson_interval
from kgedit.errors import TimestepError
from kgedit.html_tables import html_table
from kgedit.progress import step
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.audit.checks import judge_edits, judge_locality, judge_two_hops
from kgedit.timesteps.audit.claims import claimed_rows, open_snapshots
from kgedit.timesteps.edit_files import EditFile, Edits
from kgedit.timesteps.kinds import WindowChanges, describe_kinds
from kgedit.wikidata.times import not_before

__all__ = ["Audit", "audit_edits"]

_STEPS = 6  # as reported to the progress


def audit_edits(edits: Edits, old: Snapshot, new: Snapshot, earlier: Sequence[Snapshot] = (), *, spill: Path) -> Audit:
    """Check every edit with its locality and two-hop questions.

    Args:
        edits: A file of edits, or a timestep.
        old: Snapshot in which the edits should not hold yet.
        new: Snapshot in which they should hold.
        earlier: Loaded snapshots before the older one, by which a change can be judged a revert.
        spill: Folder for data that does not fit in memory; it is deleted.

    Raises:
        TimestepError: if the snapshots are in the wrong order.
    """
    if old.date >= new.date:
        raise TimestepError(not_before(old.name, new.name))
    step("reading the file", 0, _STEPS)
    claimed = claimed_rows(edits)
    try:
        with open_snapshots(old, new, claimed, spill=spill) as connection:
            step("judging edits", 1, _STEPS)
            judge_edits(connection, date=new.date)
            step("judging kinds of change", 2, _STEPS)
            _find_kinds(connection, old, new, earlier, spill=spill / "kinds")
            step("judging locality questions", 3, _STEPS)
            judge_locality(connection)
            step("judging two-hop questions", 4, _STEPS)
            judge_two_hops(connection)
            step("counting", 5, _STEPS)
            return _summarise(connection, edits, old, new, left_out=claimed.left_out)
    finally:
        shutil.rmtree(spill, ignore_errors=True)


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
        SELECT subject, property, list(DISTINCT stored ORDER BY stored) AS objects
        FROM old_facts SEMI JOIN meant USING (subject, property) GROUP BY ALL
    ), now AS (
        SELECT subject, property, list(DISTINCT stored ORDER BY stored) AS objects
        FROM new_facts SEMI JOIN meant USING (subject, property) GROUP BY ALL
    )
    SELECT subject, property, coalesce(before.objects, []) AS old_objects, coalesce(now.objects, []) AS new_objects
    FROM before FULL JOIN now USING (subject, property)
    WHERE before.objects IS DISTINCT FROM now.objects ORDER BY subject, property
"""


def _find_kinds(
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
    connection.register("kinds_found", describe_kinds(WindowChanges(old, new, earlier, changed), spill=spill))
    connection.execute("CREATE TABLE edit_kind AS SELECT subject, property, kind, confidence FROM kinds_found")
    connection.unregister("kinds_found")


def _count_kinds(rows: pa.Table) -> pa.Table:
    """Count valid rows by kind.

    Args:
        rows: Table with the schema kgedit.timesteps.audit.ROWS.

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


_STRINGS = pa.list_(pa.string())

ROWS = pa.schema(
    [
        ("case_id", pa.string()),
        ("verdict", pa.string()),  # valid, invalid or undecidable: the worst of its parts
        ("reason", pa.string()),  # the first one of the verdict
        ("reasons", _STRINGS),
        ("edit", pa.string()),  # the verdict of the edit alone
        ("locality", pa.string()),  # the worst verdict of its locality questions; null without any
        ("two_hops", pa.string()),
        ("subject", pa.string()),  # ids as given or resolved
        ("property", pa.string()),
        ("object", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("kind", pa.string()),  # kind of change of this subject and property; null if its values are the same
        ("kind_confidence", pa.float64()),  # in [0, 1]
    ]
)

COUNTS = pa.schema(
    [
        ("part", pa.string()),  # row, edit, locality or two hops
        ("verdict", pa.string()),
        ("reason", pa.string()),  # null in the total of a verdict
        ("rows", pa.int64()),
        ("of", pa.int64()),  # number of rows that have this part
        ("share", pa.float64()),  # null without rows
        ("low", pa.float64()),  # Wilson's 95 % interval of the share
        ("high", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """Audit of a file against two snapshots.

    Attributes:
        edits: Name of the file's edits.
        edit_format: Its format; "timestep" for an exported timestep.
        older: Date of the older snapshot.
        newer: Date of the newer snapshot.
        not_audited: Reason -> number of parts of the file that are not rows to audit.
        rows: One per edit, in file order, with the schema ROWS.
        counts: Table with the schema COUNTS: first the verdicts of whole rows, then of each part with its reasons.
        kinds: Valid rows by kind of change, with the schema kgedit.timesteps.audit.KINDS_OF_ROWS.
    """

    edits: str
    edit_format: str
    older: str
    newer: str
    not_audited: dict[str, int]
    rows: pa.Table
    counts: pa.Table
    kinds: pa.Table

    def __repr__(self) -> str:
        return f"<Audit of {self.rows.num_rows:,} edits of {self.edits!r} between {self.older} and {self.newer}>"

    def _repr_html_(self) -> str:
        """The counts, for notebooks."""
        title = f"Audit of {self.edits} between {self.older} and {self.newer}"
        return html_table(title, self.counts.column_names, [tuple(row.values()) for row in self.counts.to_pylist()])

    def as_json(self) -> dict[str, Any]:
        """The audit as JSON values."""
        return {
            "edits": self.edits,
            "format": self.edit_format,
            "from": self.older,
            "to": self.newer,
            "not_audited": self.not_audited,
            "counts": self.counts.to_pylist(),
            "kinds": self.kinds.to_pylist(),
            "rows": self.rows.to_pylist(),
        }


_ROWS = """
    WITH part AS (
        SELECT place, 'edit' AS part, -1 AS probe, verdict, reason FROM edit_verdict
        UNION ALL SELECT place, 'locality', probe, verdict, reason FROM near_verdict
        UNION ALL SELECT place, 'two hops', probe, verdict, reason FROM hop_verdict
    ), worst AS (
        SELECT place, part, max(CASE verdict WHEN 'invalid' THEN 2 WHEN 'undecidable' THEN 1 ELSE 0 END) AS severity
        FROM part GROUP BY ALL
    ), judged AS (
        SELECT place, max(severity) AS severity, max(severity) FILTER (part = 'edit') AS edit,
               max(severity) FILTER (part = 'locality') AS locality,
               max(severity) FILTER (part = 'two hops') AS two_hops
        FROM worst GROUP BY place
    ), reasons_of AS (
        SELECT place, list(reason ORDER BY verdict = 'invalid' DESC, probe) FILTER (reason IS NOT NULL) AS reasons
        FROM part GROUP BY place
    )
    SELECT e.case_id, named(j.severity) AS verdict, t.reasons[1] AS reason,
           coalesce(list_distinct_in_order(t.reasons), []) AS reasons, named(j.edit) AS edit,
           named(j.locality) AS locality, named(j.two_hops) AS two_hops, coalesce(v.subject, e.subject) AS subject,
           coalesce(v.property, e.property) AS property, coalesce(v.object, e.object) AS object, e.question, e.answer,
           k.kind, k.confidence AS kind_confidence
    FROM claimed_edits e JOIN judged j USING (place) JOIN reasons_of t USING (place) JOIN edit_verdict v USING (place)
    LEFT JOIN edit_kind k ON k.subject = v.subject AND k.property = v.property
    ORDER BY e.place
"""

_COUNTS = """
    WITH part AS (
        SELECT 0 AS turn, 'edit' AS part, place, verdict, reason FROM edit_verdict
        UNION ALL SELECT 1, 'locality', place, verdict, reason FROM near_verdict
        UNION ALL SELECT 2, 'two hops', place, verdict, reason FROM hop_verdict
    ), sized AS (
        SELECT part, count(DISTINCT place) AS of FROM part GROUP BY part
    )
    SELECT part, verdict, reason, count(DISTINCT place) AS rows, any_value(of) AS of
    FROM part JOIN sized USING (part) WHERE reason IS NOT NULL
    GROUP BY turn, part, verdict, reason ORDER BY turn, verdict, rows DESC, reason
"""


def _summarise(
    connection: duckdb.DuckDBPyConnection, edits: Edits, old: Snapshot, new: Snapshot, *, left_out: Mapping[str, int]
) -> Audit:
    """Build the audit from the tables of the checks."""
    connection.execute(
        "CREATE MACRO named(severity) AS "
        "CASE severity WHEN 0 THEN 'valid' WHEN 1 THEN 'undecidable' WHEN 2 THEN 'invalid' END"
    )
    connection.execute("CREATE MACRO list_distinct_in_order(l) AS list_filter(l, lambda x, i: list_position(l, x) = i)")
    rows = connection.sql(_ROWS).to_arrow_table().cast(ROWS)
    verdicts = rows["verdict"].to_pylist()
    counted = [
        {"part": "row", "verdict": verdict, "reason": None, "rows": verdicts.count(verdict), "of": len(verdicts)}
        for verdict in ("valid", "invalid", "undecidable")
    ]
    counted += connection.sql(_COUNTS).to_arrow_table().to_pylist()
    for row in counted if verdicts else ():
        low, high = wilson_interval(row["rows"], row["of"])
        row |= {"share": round(row["rows"] / row["of"], 6), "low": round(low, 6), "high": round(high, 6)}
    return Audit(
        edits=edits.name,
        edit_format=edits.edit_format.name if isinstance(edits, EditFile) else "timestep",
        older=old.name,
        newer=new.name,
        not_audited={**(edits.left_out if isinstance(edits, EditFile) else {}), **left_out},
        rows=rows,
        counts=pa.Table.from_pylist(counted, schema=COUNTS),
        kinds=_count_kinds(rows),
    )
