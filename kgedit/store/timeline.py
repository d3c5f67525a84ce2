"""Facts, statements, redirects and terms over several snapshots, as SQL over the store: the exact content of the graph.

The graph records the half-open intervals of snapshots [since, until) in which each row is present. The views of a
timeline contain the rows of all its snapshots (whole_facts, whole_claims, whole_redirects, whole_terms);
kgedit.store.delta computes the changes of the newest one. Both use anti-joins of consecutive snapshots.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import duckdb
import pyarrow as pa

from kgedit.store import captions
from kgedit.store.digests import changed_entities
from kgedit.store.engine import literal, open_engine
from kgedit.store.facts import KIND, TERM, VALUE_TYPE, with_statement_ids
from kgedit.store.scope import Scope
from kgedit.store.snapshots import BucketGroup, Snapshot, SnapshotTable, bucket_groups
from kgedit.wikidata.times import OPEN_END

_VALUE = ("value_type", "value", "unit", "language", "precision", "calendar")

TERM_COLUMNS = ("id", "kind", "label", "description", "aliases", "datatype", *_VALUE, "presence")
"""``presence``: snapshots in which an entity appeared, left, appeared again, ...; NULL if no dump describes it."""

FACT_COLUMNS = (
    "subject", "object", "property", "property_label", "statement_id", "start_time", "end_time", "point_in_time",
    "caption", "since", "until",
)  # fmt: skip

CLAIM_COLUMNS = (
    "subject", "object", "statement_id", "property", "rank", "restricted",
    "start_time", "start_precision", "end_time", "end_precision", "point_in_time", "point_precision",
    "separators", "since", "until",
)  # fmt: skip

REDIRECT_COLUMNS = ("source", "target", "since", "until")

KEYS = {
    "fact": "subject, property, object",
    "claim": "statement_id, version, restricted",
    "redirect": "source, target",
    "entity": "id",
}
"""Columns by which a row of one snapshot is the same as a row of another."""

_VIEWS = {
    "fact": f"""
        SELECT subject, property, object, kind, statement_place, start_time, end_time, point_time AS point_in_time,
               {", ".join(_VALUE)}
        FROM {{facts}} WHERE {{condition}}
    """,
    "claim": f"""
        SELECT subject, property, {TERM} AS object, {KIND.format(id=f"({TERM})")} AS kind, statement_id, version, rank,
               restricted, start_time, start_precision, end_time, end_precision, end_first, point_time AS point_in_time,
               point_precision, CASE WHEN len(separators) > 0 THEN separators END AS separators,
               CASE WHEN claims.object IS NULL THEN {VALUE_TYPE} END AS value_type, {", ".join(_VALUE[1:])}
        FROM {{claims}} AS claims WHERE snak = 'value' AND {{condition}}
    """,
    "redirect": "SELECT id AS source, redirect_target AS target FROM {entities} "
    "WHERE redirect_target IS NOT NULL AND {condition}",
    "entity": (
        "SELECT * REPLACE (CASE WHEN len(aliases) > 0 THEN aliases END AS aliases) FROM {entities} "
        "WHERE redirect_target IS NULL AND {condition}"
    ),
}  # fmt: skip
"""Rows of one snapshot; a view of each is created with the snapshot's number as suffix."""

_IDS = "SELECT subject, place, statement_id FROM {claims}"
"""Ids of the statements of one snapshot, with its number as suffix too."""

_MEMORY = "192MB"
"""Memory on two cores of a graph's files; the rest spills to disk."""

_BUCKETS_AT_ONCE = 2
"""Terms are made in as many parts as there are groups of this many buckets, so that their hash tables do not grow."""

_CONTENT = "kind, label, description, aliases, datatype"
"""Columns of an entity that its term shows."""


@contextmanager
def open_timeline(snapshots: Sequence[Snapshot], scope: Scope, *, spill: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB connection with views over these snapshots, oldest first.

    Views: ``fact_0``, ``claim_0``, ``redirect_0``, ``entity_0``, ``fact_1``, ... of each snapshot within the scope;
    ``whole_facts``, ``whole_redirects``, ``whole_terms`` and, with evidence, ``whole_claims`` of all snapshots.

    Args:
        snapshots: At least one snapshot.
        scope: Facts and statements to include.
        spill: Folder for spilled rows and for facts near a change; the caller deletes it after closing the connection.
    """
    with open_engine(spill, memory=_MEMORY) as connection:
        _make_timeline(connection, snapshots, scope, spill)
        yield connection


def _make_timeline(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], scope: Scope, spill: Path
) -> None:
    parts = max(1, len(bucket_groups(snapshots)) // _BUCKETS_AT_ONCE)
    connection.execute(f"SET VARIABLE term_parts = {parts}")
    make_views(connection, snapshots, scope.condition())
    make_property_labels(connection, property_labels(connection, snapshots))
    for k in range(1, len(snapshots)):
        connection.execute(f"CREATE TABLE touched_{k} (id VARCHAR)")
        for group in bucket_groups(snapshots[k - 1 : k + 1]):
            older, newer = (group.rows(one, "entities") for one in snapshots[k - 1 : k + 1])
            connection.execute(f"INSERT INTO touched_{k} {touched(older, newer)}")
    _find_moved(connection, "fact", snapshots, scope.condition())
    if scope.follows_changes:
        _keep_what_is_near_a_change(connection, snapshots, scope, spill)
    for k in range(1, len(snapshots)):
        connection.execute(f"CREATE VIEW ends_{k} AS {ends_of(k, f'FROM ended_fact_{k}')}")
    # Facts near a change have the ids of their statements already.
    newest = f"FROM fact_{len(snapshots) - 1}"
    newest = newest if scope.follows_changes else with_statement_ids(f"({newest})", f"statement_{len(snapshots) - 1}")
    connection.execute(f"CREATE VIEW newest_fact AS {newest}")
    _make_whole(connection, snapshots, scope)


def term_parts(connection: duckdb.DuckDBPyConnection, folder: Path) -> Iterator[None]:
    """Restrict the view ``whole_terms`` to one part of its rows after the other, and to all of them again at the end.

    A part takes the memory of a few buckets; all of them together have each term once. What terms are made from is
    sorted by part first, so that a part reads its own rows only.

    Args:
        connection: Result of `open_timeline`, in which the view has all rows.
        folder: Empty folder for the sorted rows; the caller deletes it when the view is no longer read.
    """
    parts = connection.execute("SELECT getvariable('term_parts')").fetchall()[0][0]
    if parts == 1:
        yield
        return
    files = {name: literal(folder / f"{name}.parquet") for name in _TERM_SOURCES}
    for name, file in files.items():
        rows = f"SELECT *, hash(id) % {parts} AS part FROM {name} ORDER BY part"
        connection.execute(f"COPY ({rows}) TO {file} (FORMAT parquet)")
    for condition in (*(f"part = {part}" for part in range(parts)), "true"):
        for name, file in files.items():
            rows = f"SELECT * EXCLUDE (part) FROM {file} WHERE {condition}"
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS {rows}")
        if condition != "true":
            yield


_TERM_SOURCES = ("object_row", "newest_entity", "moved_entity", "seen_moved", "described")
"""Views that ``whole_terms`` reads, each with a column id."""


def _make_whole(connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], scope: Scope) -> None:
    """Create the views whole_facts, whole_redirects, whole_terms and, with evidence, whole_claims."""
    if scope.evidence and not scope.follows_changes:
        _find_moved(connection, "claim", snapshots, scope.condition())
    _find_moved(connection, "redirect", snapshots, None if scope.follows_changes else "true")
    _find_moved(connection, "entity", snapshots, "true")
    for name in KEYS:
        if name != "claim" or scope.evidence:
            _make_seen(connection, name, snapshots)
    _make_whole_facts(connection, snapshots)
    connection.execute("CREATE VIEW whole_redirects AS FROM seen_redirect")
    if scope.evidence:
        connection.execute(f"CREATE VIEW whole_claims AS {claims_in_words('FROM seen_claim')}")
    _make_whole_terms(connection, snapshots, scope)


def make_views(
    connection: duckdb.DuckDBPyConnection,
    snapshots: Sequence[Snapshot],
    condition: str,
    group: BucketGroup | None = None,
) -> None:
    """Create or replace views of the facts and claims under a condition, and of all redirects and entities.

    Args:
        connection: Connection that gets the views ``fact_0``, ``claim_0``, ``redirect_0``, ``entity_0``, ...
        snapshots: Their snapshots.
        condition: SQL condition for facts and claims.
        group: Restricts the views to the rows of some buckets; None means all rows.
    """
    for k, snapshot in enumerate(snapshots):
        for name in KEYS:
            make_view(connection, name, k, snapshot, condition if name in ("fact", "claim") else "true", group)


def make_view(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    k: int,
    snapshot: Snapshot,
    condition: str,
    group: BucketGroup | None = None,
) -> None:
    """Create or replace one snapshot's view of facts, claims, redirects or entities; that of ids goes with facts."""
    tables = get_args(SnapshotTable)
    rows = {file: group.rows(snapshot, file) if group else literal(getattr(snapshot, file)) for file in tables}
    connection.execute(f"CREATE OR REPLACE VIEW {name}_{k} AS {_VIEWS[name].format(**rows, condition=condition)}")
    if name == "fact":
        connection.execute(f"CREATE OR REPLACE VIEW statement_{k} AS {_IDS.format(**rows)}")


def with_ids(name: str, k: int, rows: str, subjects: str) -> str:
    """SQL of rows of ``<name>_k`` with the ids of their statements, which the views of facts lack.

    Args:
        name: Name of the views.
        k: Number of the snapshot.
        rows: SQL of the rows.
        subjects: SQL condition for the subjects of the rows. Claims of others are not read into memory.
    """
    if name != "fact":
        return rows
    return with_statement_ids(f"({rows})", f"(FROM statement_{k} WHERE {subjects})")


def property_labels(connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot]) -> pa.Table:
    """Labels of properties in each snapshot: since (its date), property and property_label."""
    labels = " UNION ALL ".join(
        f"SELECT {snapshot.date} AS since, id AS property, label AS property_label FROM {literal(snapshot.entities)} "
        "WHERE id[1] = 'P' AND redirect_target IS NULL AND label IS NOT NULL"
        for snapshot in snapshots
    )
    return connection.sql(labels).to_arrow_table()


def make_property_labels(connection: duckdb.DuckDBPyConnection, labels: pa.Table) -> None:
    """Create table ``property_labels`` from the result of `property_labels`."""
    connection.register("labels_given", labels)
    connection.execute("CREATE TABLE property_labels AS FROM labels_given")
    connection.unregister("labels_given")


def touched(older: str, newer: str) -> str:
    """SQL of the ids of entities whose digests differ in two snapshots.

    Args:
        older: SQL relation of entities, with redirects or without.
        newer: That of the newer snapshot.
    """
    old, new = (f"(SELECT id, digest FROM {entities} WHERE redirect_target IS NULL)" for entities in (older, newer))
    return f"SELECT id FROM ({changed_entities(old, new)})"


def only(name: str, here: int, there: int) -> str:
    """SQL for the rows of one snapshot that its neighbour lacks.

    Facts and statements are compared only where the digests of their subjects differ (kgedit.store.digests): an
    anti-join of all of them would cost as much as the whole snapshot.
    """
    where = f"WHERE subject IN (FROM touched_{max(here, there)})" if name in ("fact", "claim") else ""
    other = f"(SELECT {KEYS[name]} FROM {name}_{there} {where})"
    return f"SELECT * FROM (SELECT * FROM {name}_{here} {where}) ANTI JOIN {other} USING ({KEYS[name]})"


def ends_of(k: int, ended: str) -> str:
    """SQL for the latest end time that the statements of snapshot k state for facts that ended with it."""
    return f"""
        SELECT subject, property, object, max_by(end_time, (end_first, end_time)) AS end_time
        FROM claim_{k} SEMI JOIN ({ended}) ended USING (subject, property, object)
        WHERE subject IN (FROM touched_{k}) AND end_time IS NOT NULL AND rank <> 'deprecated' AND NOT restricted
        GROUP BY subject, property, object
    """


def _keep_what_is_near_a_change(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], scope: Scope, folder: Path
) -> None:
    """Restrict the views to facts around changes, and create ``named``: ids of all terms of the graph."""
    ids = range(len(snapshots))
    moved = ["begun_fact", *(f"ended_fact_{k}" for k in ids[1:])]
    rows = " UNION ALL ".join(f"SELECT subject, property, object FROM {table}" for table in moved)
    connection.execute(f"CREATE TABLE changed AS SELECT DISTINCT * FROM ({rows})")
    near = "SELECT subject AS id FROM changed"
    if scope.around_changes:
        near += " UNION SELECT object FROM changed"
    connection.execute(f"CREATE TABLE near AS SELECT DISTINCT id FROM ({near})")
    condition = f"{scope.condition()} AND subject IN (FROM near)"
    if scope.changed_pairs:
        condition += " AND (subject, property) IN (SELECT (subject, property) FROM changed)"
    kinds = ("fact", "claim") if scope.evidence else ("fact",)
    for name in kinds:
        for k, snapshot in enumerate(snapshots[:-1]):
            make_view(connection, name, k, snapshot, condition)
        _copy_near(connection, name, ids[-1], snapshots[-1], condition, folder)
    if scope.evidence:
        _find_moved(connection, "claim", snapshots, None)
    tables = _last_and_ended(kinds, len(snapshots))
    named = " UNION ".join(f"SELECT {end} FROM {table}" for table in tables for end in ("object", "property"))
    connection.execute(f"CREATE TABLE named AS FROM near UNION {named}")
    # A redirect may lead out of the neighbourhood, and its target may redirect in another snapshot. Both are nodes.
    for k, snapshot in enumerate(snapshots):
        make_view(connection, "redirect", k, snapshot, "id IN (FROM named)")
        connection.execute(f"CREATE TABLE near_redirect_{k} AS FROM redirect_{k}")
        connection.execute(f"CREATE OR REPLACE VIEW redirect_{k} AS FROM near_redirect_{k}")
    for k in ids:
        connection.execute(f"INSERT INTO named SELECT DISTINCT target FROM redirect_{k} ANTI JOIN named ON id = target")


def _copy_near(
    connection: duckdb.DuckDBPyConnection, name: str, k: int, snapshot: Snapshot, condition: str, folder: Path
) -> None:
    """Copy a snapshot's rows under a condition to files that the view reads instead: terms, names and edges all come
    from these rows, which a table would hold in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for group in bucket_groups([snapshot]):
        make_view(connection, name, k, snapshot, condition, group)
        files.append(folder / f"near-{name}-{group.number:05d}.parquet")
        rows = with_ids(name, k, f"FROM {name}_{k}", "subject IN (FROM near)")
        connection.execute(f"COPY ({rows}) TO {literal(files[-1])} (FORMAT parquet)")
    listed = ", ".join(literal(glob.escape(str(file))) for file in files)
    connection.execute(f"CREATE OR REPLACE VIEW {name}_{k} AS FROM read_parquet([{listed}])")


def _last_and_ended(kinds: Sequence[str], snapshots: int) -> list[str]:
    """Tables that have every fact (and statement) of all snapshots: those of the last one, and those that ended."""
    last = snapshots - 1
    return [
        table for name in kinds for table in (f"{name}_{last}", *(f"ended_{name}_{k}" for k in range(1, snapshots)))
    ]


def _find_moved(
    connection: duckdb.DuckDBPyConnection, name: str, snapshots: Sequence[Snapshot], condition: str | None
) -> None:
    """Find the rows that only one of two neighbouring snapshots has.

    Creates tables ``begun_<name>``: keys of rows that a snapshot has and the one before it lacks, with its date; and
    ``ended_<name>_1``, ...: rows that a snapshot lacks and the one before it has.

    Args:
        connection: Connection with the views.
        name: "fact", "claim", "redirect" or "entity".
        snapshots: All snapshots.
        condition: SQL condition of the views, which are then compared bucket by bucket; None compares whole views.
    """
    connection.execute(f"CREATE TABLE begun_{name} AS SELECT {KEYS[name]}, 0 AS since FROM {name}_0 LIMIT 0")
    for k in range(1, len(snapshots)):
        both = snapshots[k - 1 : k + 1]
        ended = with_ids(name, k - 1, f"FROM {name}_{k - 1}", "true")
        connection.execute(f"CREATE TABLE ended_{name}_{k} AS FROM ({ended}) LIMIT 0")
        for group in [None] if condition is None else bucket_groups(both):
            if condition is not None:
                for place, snapshot in enumerate(both, start=k - 1):
                    make_view(connection, name, place, snapshot, condition, group)
            begun = f"SELECT {KEYS[name]}, {snapshots[k].date} FROM ({only(name, k, k - 1)})"
            connection.execute(f"INSERT INTO begun_{name} {begun}")
            ended = with_ids(name, k - 1, only(name, k - 1, k), f"subject IN (FROM touched_{k})")
            connection.execute(f"INSERT INTO ended_{name}_{k} {ended}")
    if condition is not None:
        for k, snapshot in enumerate(snapshots):
            make_view(connection, name, k, snapshot, condition)


def _make_seen(connection: duckdb.DuckDBPyConnection, name: str, snapshots: Sequence[Snapshot]) -> None:
    """Create view ``seen_<name>``: every row with the interval [since, until) of snapshots in which it was seen.

    The content of a row is that of the last snapshot that has it.
    """
    keys, first = KEYS[name], snapshots[0].date
    rows_until = {OPEN_END: "newest_fact" if name == "fact" else f"{name}_{len(snapshots) - 1}"}
    rows_until |= {snapshot.date: f"ended_{name}_{k}" for k, snapshot in enumerate(snapshots) if k}
    for until, rows in rows_until.items():
        connection.execute(f"""
            CREATE VIEW seen_{name}_until_{until} AS
            WITH begun AS (SELECT {keys}, max(since) AS since FROM begun_{name} WHERE since < {until} GROUP BY ALL)
            SELECT r.*, coalesce(begun.since, {first})::INTEGER AS since, {until}::INTEGER AS until
            FROM {rows} r LEFT JOIN begun USING ({keys})
        """)
    connection.execute(f"CREATE VIEW seen_{name} AS {_union(f'seen_{name}_until_{until}' for until in rows_until)}")


def _make_whole_facts(connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot]) -> None:
    """Create view whole_facts: a fact that ended has the latest end time that was stated for it."""
    for k, snapshot in enumerate(snapshots[1:], start=1):
        connection.execute(f"CREATE VIEW ends_until_{k} AS SELECT *, {snapshot.date}::INTEGER AS until FROM ends_{k}")
    rows = "FROM seen_fact"
    if len(snapshots) > 1:
        connection.execute(f"CREATE VIEW all_ends AS {_union(f'ends_until_{k}' for k in range(1, len(snapshots)))}")
        rows = """
            SELECT f.* REPLACE (coalesce(e.end_time, f.end_time) AS end_time)
            FROM seen_fact f LEFT JOIN all_ends e USING (subject, property, object, until)
        """
    connection.execute(f"CREATE VIEW whole_facts AS {facts_in_words(rows, first=snapshots[0].date)}")


def _union(views: Iterable[str]) -> str:
    return " UNION ALL ".join(f"FROM {view}" for view in views)


def facts_in_words(rows: str, *, first: int) -> str:
    """SQL for FACT_COLUMNS of rows with since and until: adds the property's label when first seen, and the caption.

    Args:
        rows: SQL of the rows.
        first: Day number of the oldest snapshot.
    """
    return f"""
        WITH labelled AS (
            SELECT f.*, coalesce(p.property_label, f.property) AS property_label
            FROM ({rows}) f LEFT JOIN property_labels p USING (property, since)
        ), captioned AS (
            SELECT *, property_label || CASE WHEN until = {OPEN_END}
                THEN coalesce({captions.lasting()}, {captions.seen("since", first=first)})
                ELSE coalesce({captions.ended("until")}, {captions.seen_between("since", "until")}) END AS caption
            FROM labelled
        )
        SELECT {", ".join(FACT_COLUMNS)} FROM captioned
    """


def claims_in_words(rows: str) -> str:
    """SQL for CLAIM_COLUMNS of rows with since and until; `restricted` is NULL instead of false."""
    columns = ", ".join(CLAIM_COLUMNS)
    return f"SELECT {columns} FROM (SELECT * REPLACE (nullif(restricted, false) AS restricted) FROM ({rows}))"


def _make_whole_terms(connection: duckdb.DuckDBPyConnection, snapshots: Sequence[Snapshot], scope: Scope) -> None:
    """Create view whole_terms, with TERM_COLUMNS: entities that dumps describe, and the other ends of edges.

    Only entities that came or left are grouped; grouping all of them would hold every label in memory.
    """
    ids = range(len(snapshots))
    first, last = snapshots[0].date, ids[-1]
    kinds = ("fact", "claim") if scope.evidence else ("fact",)
    near = "SEMI JOIN named USING (id)" if scope.follows_changes else ""
    moved = " UNION ".join(["SELECT id FROM begun_entity", *(f"SELECT id FROM ended_entity_{k}" for k in ids[1:])])
    views = {
        "object_row": object_rows(_last_and_ended(kinds, len(snapshots)), [f"redirect_{k}" for k in ids]),
        "moved_entity": f"SELECT id FROM ({moved}) {near}",
        "seen_moved": "FROM seen_entity SEMI JOIN moved_entity USING (id)",
        "newest_entity": f"SELECT id, {_CONTENT} FROM entity_{last} {near}",
        "described": " UNION ALL ".join(f"SELECT id FROM entity_{k} {near}" for k in ids),
    }
    for name, select in views.items():
        connection.execute(f"CREATE VIEW {name} AS {select}")
    known = _columns("kind", "label", "description", "aliases", "datatype", "presence")
    content = ", ".join(f"{name} := {name}" for name in _CONTENT.split(", "))
    connection.execute(f"""
        CREATE VIEW whole_terms AS
        WITH moved AS MATERIALIZED (FROM moved_entity),
        there AS (
            SELECT id, {_CONTENT}, [{first}]::INTEGER[] AS presence FROM newest_entity ANTI JOIN moved USING (id)
        ), came_or_left AS (
            SELECT id, unnest(max_by(struct_pack({content}), since)),
                   flatten(list(CASE until WHEN {OPEN_END} THEN [since] ELSE [since, until] END ORDER BY since))
                       AS presence
            FROM seen_moved GROUP BY id
        )
        SELECT {known} FROM there
        UNION ALL
        SELECT {known} FROM came_or_left
        UNION ALL
        SELECT {_columns("kind", "label", *_VALUE)} FROM ({object_terms("object_row")}) ANTI JOIN described USING (id)
    """)


def object_rows(rows: Iterable[str], redirects: Iterable[str]) -> str:
    """SQL for what facts, claims and redirects refer to: id, kind and a literal's columns, once for each reference.

    Args:
        rows: Views with object, kind and a literal's columns.
        redirects: Views with source and target.
    """
    named = [f"SELECT object AS id, kind, {', '.join(_VALUE)} FROM {view}" for view in rows]
    nulls = ", ".join(f"NULL AS {name}" for name in _VALUE)
    named += [
        f"SELECT {end}, {KIND.format(id=end)}, {nulls} FROM {view}"
        for view in redirects
        for end in ("source", "target")
    ]
    return " UNION ALL ".join(named)


def object_terms(rows: str) -> str:
    """SQL for terms, each once, of a relation with the columns of `object_rows`; entities have only their ids."""
    one_line = "regexp_replace(any_value({0}), '[\\r\\n]+', ' ', 'g')"
    values = ", ".join(f"{one_line.format(name)} AS {name}" for name in _VALUE)
    return f"""
        SELECT id, any_value(kind) AS kind, {values}, {one_line.format("value")} AS label FROM {rows} GROUP BY id
    """


def _columns(*known: str) -> str:
    """TERM_COLUMNS, with NULL for unknown ones."""
    types = {"aliases": "VARCHAR[]", "presence": "INTEGER[]"}
    return ", ".join(
        name if name in ("id", *known) else f"NULL::{types.get(name, 'VARCHAR')} AS {name}" for name in TERM_COLUMNS
    )
