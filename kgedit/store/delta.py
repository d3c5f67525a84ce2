"""Changes of the newest snapshot, from anti-joins with the one before it, independent of the number of snapshots.

Each step of STEPS is one Parquet file, read by the graph's write query of the same name, in a fixed order.
"""

from __future__ import annotations

import glob
import hashlib
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.store import captions
from kgedit.store.engine import literal, open_engine
from kgedit.store.scope import Scope
from kgedit.store.snapshots import BucketGroup, Snapshot, bucket_groups
from kgedit.store.timeline import (
    CLAIM_COLUMNS,
    FACT_COLUMNS,
    REDIRECT_COLUMNS,
    TERM_COLUMNS,
    claims_in_words,
    ends_of,
    facts_in_words,
    make_property_labels,
    make_views,
    object_rows,
    object_terms,
    only,
    open_timeline,
    property_labels,
    touched,
    with_ids,
)
from kgedit.wikidata.times import OPEN_END

WHOLE_STEPS = ("terms", "redirects_begun", "facts_begun", "claims_begun")
"""Steps that write a whole graph, in order."""

DELTA_STEPS = (
    "terms", "named", "left", "redirects_ended", "redirects_begun", "facts_ended", "facts_changed", "facts_begun",
    "claims_ended", "claims_begun",
)  # fmt: skip
"""Steps that apply a delta, in order."""

_MEMORY = "224MB"
"""Memory on two cores of a bucket's delta; the rest spills to disk."""

_ROW_GROUP_ROWS = 20_000

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
    """Write the changes between two consecutive snapshots, one bucket of both after the other.

    Parts that `write_delta_parts` left in the folder are used, and deleted at the end.

    Returns:
        The files by step (DELTA_STEPS), each sorted within a bucket.
    """
    numbers = range(delta_parts(older, newer))
    write_delta_parts(older, newer, scope, folder, numbers)
    made = _parts_folder(folder, (older, newer), scope)
    files: dict[str, Path] = {}
    with open_engine(folder / "spill", memory=_MEMORY) as connection:
        for step in _selects(newer.date, scope):
            parts = [_part(made, number) / f"{step}.parquet" for number in numbers]
            files[step] = folder / f"{step}.parquet"
            if step == "named":
                named = _never_described(connection, (older, newer), parts)
                pq.write_table(named, files[step], row_group_size=_ROW_GROUP_ROWS)
                continue
            # DuckDB declares a column without nulls as required, so the schemas of parts may differ.
            schema = pa.schema([field.with_nullable(True) for field in pq.read_schema(parts[0])])
            with pq.ParquetWriter(files[step], schema) as file:
                for part in parts:
                    file.write_table(pq.read_table(part).cast(schema), _ROW_GROUP_ROWS)
    for parts_made in folder.glob(f"{_PARTS}-*"):
        shutil.rmtree(parts_made)
    return files


def delta_folder(home: Path, newer: Snapshot) -> Path:
    """Folder of a delta that is being written or applied."""
    return home / "delta" / str(newer.date)


def delta_parts(older: Snapshot, newer: Snapshot) -> int:
    """Number of parts of a delta, one for each bucket that both snapshots have."""
    return len(bucket_groups((older, newer)))


def missing_parts(older: Snapshot, newer: Snapshot, scope: Scope, folder: Path) -> list[int]:
    """Numbers of the parts of a delta that are not in its folder."""
    made = _parts_folder(folder, (older, newer), scope)
    return [number for number in range(delta_parts(older, newer)) if not _part(made, number).is_dir()]


def write_delta_parts(
    older: Snapshot,
    newer: Snapshot,
    scope: Scope,
    folder: Path,
    numbers: Iterable[int],
    labels: pa.Table | None = None,
) -> None:
    """Write parts of a delta for `write_delta`, which may be in another process or on another machine.

    Each is a folder that is renamed when it is complete. Complete parts of the same delta are kept.

    Args:
        older: The older snapshot.
        newer: The next one.
        scope: Facts and statements to include.
        folder: Folder of the delta, shared by all parts.
        numbers: Numbers of the parts, from 0.
        labels: Labels of properties (kgedit.store.timeline.property_labels), so that each of many calls need not read
            all entities for them; None reads them.
    """
    snapshots, groups = (older, newer), bucket_groups((older, newer))
    made = _parts_folder(folder, snapshots, scope)
    todo = [groups[number] for number in numbers if not _part(made, number).is_dir()]
    if not todo:
        return
    made.mkdir(parents=True, exist_ok=True)
    with open_engine(made / f".spill-{uuid.uuid4().hex}", memory=_MEMORY) as connection:
        make_property_labels(connection, property_labels(connection, snapshots) if labels is None else labels)
        for group in todo:
            _show_what_changed(connection, snapshots, scope, group)
            aside = made / f".{group.number:05d}-{uuid.uuid4().hex}"
            aside.mkdir()
            for step, select in _selects(newer.date, scope).items():
                _write(connection, select, aside / f"{step}.parquet")
            with suppress(OSError):  # another attempt at the part, which gives the same bytes, was faster
                aside.rename(_part(made, group.number))
            shutil.rmtree(aside, ignore_errors=True)


_PARTS = "parts"


def _parts_folder(folder: Path, snapshots: Sequence[Snapshot], scope: Scope) -> Path:
    """Folder of the parts of a delta. Those of other snapshots or with another scope are in other folders."""
    of = [(snapshot.date, snapshot.manifest) for snapshot in snapshots]
    return folder / f"{_PARTS}-{hashlib.sha256(repr((of, scope)).encode()).hexdigest()[:16]}"


def _part(made: Path, number: int) -> Path:
    return made / f"{number:05d}"


def _show_what_changed(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], scope: Scope, group: BucketGroup
) -> None:
    """Make the views of a timeline contain the rows of one bucket about entities whose digests differ."""
    make_views(connection, snapshots, "true", group)
    older, newer = (group.rows(snapshot, "entities") for snapshot in snapshots)
    connection.execute(f"CREATE OR REPLACE TABLE touched_1 AS {touched(older, newer)}")
    conditions = {"entity": "id IN (FROM touched_1)", "fact": f"{scope.condition()} AND subject IN (FROM touched_1)"}
    if scope.evidence:
        conditions["claim"] = conditions["fact"]
    for k in range(len(snapshots)):
        for name, condition in conditions.items():
            # Every step reads these few rows, so the files are read only once.
            rows = with_ids(name, k, f"FROM {name}_{k} WHERE {condition}", "subject IN (FROM touched_1)")
            connection.execute(f"CREATE OR REPLACE TABLE touched_{name}_{k} AS {rows}")
            connection.execute(f"CREATE OR REPLACE VIEW {name}_{k} AS FROM touched_{name}_{k}")
    connection.execute(f"CREATE OR REPLACE VIEW ends_1 AS {ends_of(1, only('fact', 0, 1))}")


def _never_described(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], parts: Sequence[Path]
) -> pa.Table:
    """Terms in the files of the step ``named`` that are no entity of the newer snapshot, each once."""
    listed = ", ".join(literal(glob.escape(str(part))) for part in parts)
    connection.execute(f"CREATE TABLE object_term AS FROM read_parquet([{listed}])")
    connection.execute("CREATE TABLE described (id VARCHAR)")
    for group in bucket_groups(snapshots):
        entities = f"{group.rows(snapshots[-1], 'entities')} WHERE redirect_target IS NULL"
        connection.execute(f"INSERT INTO described SELECT id FROM {entities} AND id IN (SELECT id FROM object_term)")
    return connection.sql(
        "SELECT DISTINCT ON (id) * FROM object_term ANTI JOIN described USING (id) ORDER BY ALL"
    ).to_arrow_table()


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
            {with_views} {object_terms(f"({object_rows(begun, ['new_redirects'])})")}
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
    options = f"(FORMAT parquet, ROW_GROUP_SIZE {_ROW_GROUP_ROWS})"
    connection.execute(f"COPY (SELECT * FROM ({select}) ORDER BY ALL) TO {literal(path)} {options}")
    return path
