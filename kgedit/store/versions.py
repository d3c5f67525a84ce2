"""Terms and versions of statements over several snapshots, as SQL over the store: what the graph holds, exactly.

One definition serves the bulk import (all rows), a delta (rows that another snapshot adds or changes) and the tests.
A version lives for the half-open interval of snapshots [valid_from, valid_to) in which it was seen unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.times import OPEN_END

TERM_COLUMNS = (
    "id", "kind", "label", "description", "datatype", "value", "unit", "language", "precision", "calendar",
    "wiki_title", "redirect_to", "redirected_at", "presence",
)  # fmt: skip

CLAIM_COLUMNS = (
    "version_id", "statement_id", "subject", "object", "property", "property_label", "rank", "restricted",
    "start_time", "start_precision", "start_first", "start_until",
    "end_time", "end_precision", "end_first", "end_until",
    "point_in_time", "point_precision", "point_first", "point_until",
    "separators", "valid_from", "valid_to",
)  # fmt: skip

_ONE_LINE = "regexp_replace({}, '[\\r\\n]+', ' ', 'g')"
_VALUE_ID = (
    "'V' || md5(concat_ws(chr(31), datatype, coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''), "
    "coalesce(precision, ''), coalesce(calendar, '')))"
)
_ENTITY_KIND = "CASE {id}[1] WHEN 'Q' THEN 'item' WHEN 'P' THEN 'property' ELSE 'other' END"


def connect(snapshots: Sequence[Snapshot], *, spill: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with views over these snapshots, oldest first.

    Views: ``claims`` (all claims with a value, numbered by snapshot ``k`` and its ``date``, with ``object`` the id of
    a term), ``entities``, ``versions`` (CLAIM_COLUMNS), ``terms`` (TERM_COLUMNS).

    Args:
        snapshots: One or more.
        spill: Folder for what does not fit in memory; by default one beside the snapshots. It goes when the connection
            is closed.
    """
    connection = open_engine(spill or snapshots[0].folder.parent / ".spill")
    dates = [snapshot.date for snapshot in snapshots]
    connection.execute("CREATE TABLE snapshot (k INTEGER, date INTEGER)")
    connection.executemany("INSERT INTO snapshot VALUES (?, ?)", list(enumerate(dates)))
    connection.execute("CREATE VIEW claims AS " + _claims(snapshots))
    connection.execute("CREATE VIEW entities AS " + _union(snapshots, "entities"))
    connection.execute("CREATE VIEW versions AS " + _VERSIONS)
    connection.execute("CREATE VIEW entity_terms AS " + _ENTITY_TERMS)
    connection.execute("CREATE VIEW terms AS " + _TERMS)
    return connection


def _union(snapshots: Sequence[Snapshot], name: str) -> str:
    parts = (
        f"SELECT {k}::INTEGER AS k, {snapshot.date}::INTEGER AS date, * FROM {literal(getattr(snapshot, name))}"
        for k, snapshot in enumerate(snapshots)
    )
    return " UNION ALL ".join(parts)


def _claims(snapshots: Sequence[Snapshot]) -> str:
    value_id = f"coalesce(object, {_VALUE_ID})"
    return (
        f"SELECT * EXCLUDE (object, point_time), {value_id} AS object, object IS NOT NULL AS is_entity, "
        f"point_time AS point_in_time FROM ({_union(snapshots, 'claims')}) WHERE snak = 'value'"
    )


_VERSIONS = f"""
    WITH islands AS (
        SELECT statement_id, version, restricted, min(k) AS first_k, max(k) AS last_k
        FROM (
            SELECT statement_id, version, restricted, k,
                   k - row_number() OVER (PARTITION BY statement_id, version, restricted ORDER BY k) AS island
            FROM claims
        )
        GROUP BY statement_id, version, restricted, island
    )
    SELECT i.statement_id || '@' || c.date AS version_id, c.statement_id, c.subject, c.object, c.property,
           coalesce(e.label, c.property) AS property_label, c.rank, c.restricted,
           c.start_time, c.start_precision, c.start_first, c.start_until,
           c.end_time, c.end_precision, c.end_first, c.end_until,
           c.point_in_time, c.point_precision, c.point_first, c.point_until,
           CASE WHEN len(c.separators) > 0 THEN c.separators END AS separators,
           c.date AS valid_from, coalesce(later.date, {OPEN_END}) AS valid_to
    FROM islands i
    JOIN claims c ON c.statement_id = i.statement_id AND c.k = i.first_k
    LEFT JOIN snapshot later ON later.k = i.last_k + 1
    LEFT JOIN entities e ON e.id = c.property AND e.k = i.first_k
"""

_ENTITY_TERMS = f"""
    WITH islands AS (
        SELECT id, min(k) AS first_k, max(k) AS last_k
        FROM (
            SELECT id, k, k - row_number() OVER (PARTITION BY id ORDER BY k) AS island
            FROM entities WHERE redirect_target IS NULL
        )
        GROUP BY id, island
    ), presence AS (
        SELECT id, flatten(list([first.date, coalesce(later.date, {OPEN_END})] ORDER BY first_k)) AS presence
        FROM islands
        JOIN snapshot first ON first.k = first_k
        LEFT JOIN snapshot later ON later.k = last_k + 1
        GROUP BY id
    ), latest AS (
        SELECT id, unnest(arg_max(struct_pack(kind := kind, label := label, description := description,
               datatype := datatype, wiki_title := wiki_title), k))
        FROM entities WHERE redirect_target IS NULL GROUP BY id
    ), redirected AS (
        SELECT id, arg_max_null(redirect_target, k) AS redirect_to,
               min(date) FILTER (redirect_target IS NOT NULL) AS redirected_at
        FROM entities GROUP BY id
    )
    SELECT id, coalesce(kind, {_ENTITY_KIND.format(id="id")}) AS kind, label, description, datatype,
           NULL::VARCHAR AS value, NULL::VARCHAR AS unit, NULL::VARCHAR AS language, NULL::VARCHAR AS precision,
           NULL::VARCHAR AS calendar, wiki_title, redirect_to,
           CASE WHEN redirect_to IS NOT NULL THEN redirected_at END AS redirected_at, presence
    FROM redirected LEFT JOIN latest USING (id) LEFT JOIN presence USING (id)
"""

_OBJECT_TERMS = f"""
    SELECT object AS id, CASE WHEN is_entity THEN {_ENTITY_KIND.format(id="object")} ELSE 'value' END AS kind,
           CASE WHEN is_entity THEN NULL ELSE {_ONE_LINE.format("value")} END AS label,
           NULL::VARCHAR AS description, CASE WHEN is_entity THEN NULL ELSE datatype END AS datatype,
           {_ONE_LINE.format("value")} AS value, unit, language, precision, calendar,
           NULL::VARCHAR AS wiki_title, NULL::VARCHAR AS redirect_to, NULL::INTEGER AS redirected_at,
           NULL::INTEGER[] AS presence
    FROM claims
"""
"""Terms that occur as objects and are no entity of a dump: literals, and entities that the dump leaves out."""

_TERMS = f"""
    SELECT * FROM entity_terms
    UNION ALL
    SELECT DISTINCT o.* FROM ({_OBJECT_TERMS}) o ANTI JOIN entities USING (id)
    UNION ALL
    SELECT DISTINCT subject, {_ENTITY_KIND.format(id="subject")}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL::INTEGER[]
    FROM claims
    ANTI JOIN entities ON entities.id = claims.subject
    ANTI JOIN (SELECT object FROM claims) objects ON objects.object = claims.subject
"""


def write_delta(snapshots: Sequence[Snapshot], folder: Path) -> None:
    """Write what the last of these snapshots changes: ``terms``, ``closed`` and ``added`` as Parquet, in a fixed order.

    ``terms`` hold every column, ``closed`` the version_id and its valid_to, ``added`` whole versions.
    """
    before = snapshots[:-1]
    connection = connect(snapshots, spill=folder / "spill")
    earlier = connect(before, spill=folder / "spill") if before else None
    date = snapshots[-1].date
    _copy(connection, f"SELECT * FROM versions WHERE valid_from = {date}", folder / "added.parquet", "version_id")
    closed = f"SELECT version_id, valid_to FROM versions WHERE valid_to = {date}"
    _copy(connection, closed, folder / "closed.parquet", "version_id")
    if earlier is None:
        _copy(connection, "SELECT * FROM terms", folder / "terms.parquet", "id")
    else:
        _copy(earlier, "SELECT * FROM terms", folder / "earlier.parquet", "id")
        earlier.close()
        changed = f"SELECT * FROM terms EXCEPT SELECT * FROM {literal(folder / 'earlier.parquet')}"
        _copy(connection, changed, folder / "terms.parquet", "id")
        (folder / "earlier.parquet").unlink()
    connection.close()


def _copy(connection: duckdb.DuckDBPyConnection, select: str, path: Path, order: str) -> None:
    connection.execute(f"COPY ({select} ORDER BY {order}) TO {literal(path)} (FORMAT parquet, ROW_GROUP_SIZE 20000)")
