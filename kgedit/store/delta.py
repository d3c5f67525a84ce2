"""Changes of the newest snapshot, from anti-joins with the one before it, independent of the number of snapshots.

Each step of STEPS is one Parquet file, read by the graph's write query of the same name, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from kgedit.store import captions
from kgedit.store.engine import literal
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import (
    CLAIM_COLUMNS,
    FACT_COLUMNS,
    REDIRECT_COLUMNS,
    TERM_COLUMNS,
    claims_in_words,
    facts_in_words,
    object_terms,
    only,
    open_timeline,
)
from kgedit.wikidata.times import OPEN_END

WHOLE_STEPS = ("terms", "redirects_begun", "facts_begun", "claims_begun")
"""Steps that write a whole graph, in order."""

DELTA_STEPS = (
    "terms", "named", "left", "redirects_ended", "redirects_begun", "facts_ended", "facts_changed", "facts_begun",
    "claims_ended", "claims_begun",
)  # fmt: skip
"""Steps that apply a delta, in order."""

_CONTENT = ("label", "description", "aliases", "datatype")
_TIMES = ("statement_id", "start_time", "end_time", "point_in_time")


def write_whole(snapshots: Sequence[Snapshot], scope: Scope, folder: Path) -> dict[str, Path]:
    """Write the whole content of a graph of these snapshots. Returns the files by step (WHOLE_STEPS)."""
    columns = (TERM_COLUMNS, REDIRECT_COLUMNS, FACT_COLUMNS, CLAIM_COLUMNS)
    views = ("whole_terms", "whole_redirects", "whole_facts", "whole_claims")
    with open_timeline(snapshots, scope, spill=folder / "spill") as connection:
        return {
            step: _write(connection, f"SELECT {', '.join(names)} FROM {view}", folder / f"{step}.parquet")
            for step, names, view in zip(WHOLE_STEPS, columns, views, strict=True)
            if scope.evidence or step != "claims_begun"
        }


def write_delta(older: Snapshot, newer: Snapshot, scope: Scope, folder: Path) -> dict[str, Path]:
    """Write the changes between two consecutive snapshots. Returns the files by step (DELTA_STEPS)."""
    with open_timeline([older, newer], scope, spill=folder / "spill", only_changed=True) as connection:
        return {
            step: _write(connection, select, folder / f"{step}.parquet")
            for step, select in _selects(newer.date, scope).items()
        }


def _selects(date: int, scope: Scope) -> dict[str, str]:
    def begin(rows: str) -> str:
        return f"SELECT *, {date}::INTEGER AS since, {OPEN_END}::INTEGER AS until FROM ({rows})"

    changed = [f"o.{name} IS DISTINCT FROM n.{name}" for name in _CONTENT]
    begun = ["new_facts", *(["new_claims"] if scope.evidence else [])]
    with_views = (
        f"WITH new_facts AS ({only('fact', 1, 0)}), new_claims AS ({only('claim', 1, 0)}), "
        f"new_redirects AS ({only('redirect', 1, 0)}) "
    )
    times_changed = " OR ".join(f"o.{name} IS DISTINCT FROM n.{name}" for name in _TIMES)
    selects = {
        "terms": f"""
            SELECT n.id, n.kind, n.label, n.description, n.aliases, n.datatype,
                   CASE WHEN o.id IS NULL THEN [{date}] END AS presence
            FROM entity_1 n LEFT JOIN entity_0 o USING (id) WHERE o.id IS NULL OR {" OR ".join(changed)}
        """,
        "named": f"""
            {with_views} SELECT * FROM ({object_terms(begun, ["new_redirects"])}) ANTI JOIN all_entity_1 USING (id)
        """,
        "left": only("entity", 0, 1),
        "redirects_ended": only("redirect", 0, 1),
        "redirects_begun": begin(only("redirect", 1, 0)),
        "facts_ended": f"""
            SELECT subject, object, property, start_time, coalesce(e.end_time, f.end_time) AS end_time, point_in_time
            FROM ({only("fact", 0, 1)}) f LEFT JOIN ends_1 e USING (subject, property, object)
        """,
        "facts_changed": f"""
            SELECT n.subject, n.object, n.property, {", ".join(f"n.{name}" for name in _TIMES)}
            FROM fact_1 n JOIN fact_0 o USING (subject, property, object) WHERE {times_changed}
        """,
        "facts_begun": facts_in_words(begin(only("fact", 1, 0)), first=0),
        "claims_ended": f"SELECT subject, statement_id FROM ({only('claim', 0, 1)})",
        "claims_begun": claims_in_words(begin(only("claim", 1, 0))),
    }
    selects["left"] = f"SELECT id FROM ({selects['left']})"
    ended = f"subject, object, property, end_time, {captions.ended(str(date))} AS years"
    selects["facts_ended"] = f"SELECT {ended} FROM ({selects['facts_ended']})"
    selects["facts_changed"] = f"SELECT *, {captions.lasting()} AS years FROM ({selects['facts_changed']})"
    return {step: selects[step] for step in DELTA_STEPS if scope.evidence or not step.startswith("claims")}


def _write(connection: duckdb.DuckDBPyConnection, select: str, path: Path) -> Path:
    options = "(FORMAT parquet, ROW_GROUP_SIZE 20000)"
    connection.execute(f"COPY (SELECT * FROM ({select}) ORDER BY ALL) TO {literal(path)} {options}")
    return path
