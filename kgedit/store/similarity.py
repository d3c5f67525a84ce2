"""Facts that did not change, and those of them that are about subjects like an edited one, in bounded memory.

The same is in Cypher for people (cypher/read/static_facts, similar_static_facts); tests keep both equal.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

SIMILAR = pa.schema(
    [
        ("case_id", pa.string()),
        ("subject", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("score", pa.float64()),
    ]
)
"""A static fact that suits a case; score as in cypher/read/similar_subjects."""

_EDITS_AT_ONCE = 8_000

_TOUCHED = """
    CREATE OR REPLACE TABLE touched AS
    SELECT coalesce(o.id, n.id) AS id FROM old_entities o FULL JOIN new_entities n ON o.id = n.id
    WHERE o.digest IS DISTINCT FROM n.digest
"""
"""What is said of all others is the same in both snapshots (kgedit.store.digests), and is read once."""

_STATIC = """
    CREATE OR REPLACE TABLE static AS
    WITH wanted AS (SELECT DISTINCT property FROM edits), one AS (
        SELECT subject, property, any_value(object) AS object FROM old_facts SEMI JOIN wanted USING (property)
        WHERE subject[1] = 'Q' GROUP BY subject, property HAVING count(*) = 1 AND any_value(kind) = 'item'
    ), other AS (
        SELECT subject, property, any_value(object) AS object FROM new_facts SEMI JOIN wanted USING (property)
        WHERE subject IN (FROM touched) GROUP BY subject, property HAVING count(*) = 1
    )
    SELECT * FROM one WHERE subject NOT IN (FROM touched)
    UNION ALL
    SELECT * FROM one SEMI JOIN other USING (subject, property, object) WHERE subject IN (FROM touched)
"""

_EDITED = """
    CREATE OR REPLACE TABLE edited AS
    WITH old_touched AS (FROM old_facts WHERE subject IN (FROM touched)),
         new_touched AS (FROM new_facts WHERE subject IN (FROM touched))
    SELECT subject AS id FROM old_touched ANTI JOIN new_touched USING (subject, property, object)
    UNION
    SELECT subject FROM new_touched ANTI JOIN old_touched USING (subject, property, object)
"""

_FEATURES = """
    CREATE OR REPLACE TABLE feature AS
    SELECT DISTINCT e.subject, f.property, f.object
    FROM old_facts f JOIN (SELECT DISTINCT subject FROM edits) e USING (subject)
"""

_PAIRS = """
    CREATE OR REPLACE TABLE pair AS
    SELECT row_number() OVER (ORDER BY property, object) AS pair, property, object,
           round(1e6 * ln($items / holders))::BIGINT AS weight
    FROM (
        SELECT property, object, count(*) AS holders
        FROM old_facts SEMI JOIN feature USING (property, object) WHERE subject[1] = 'Q'
        GROUP BY property, object HAVING count(*) <= $max_df
    )
"""
"""Weights are whole millionths: their sum is the same in whatever order it is taken."""

_HOLDERS = """
    CREATE OR REPLACE TABLE holder AS
    SELECT pair, f.subject FROM old_facts f JOIN pair USING (property, object)
    WHERE f.subject[1] = 'Q' AND f.subject NOT IN (FROM edited)
"""

_SIMILAR = """
    WITH static_here AS MATERIALIZED (FROM static WHERE property IN (SELECT property FROM chosen)),
    own AS (SELECT e.case_id, f.object FROM chosen e JOIN both_facts f USING (subject, property)),
    found AS (
        SELECT e.case_id, h.subject, e.property, any_value(s.object) AS object, sum(p.weight) AS weight
        FROM chosen e
        JOIN feature f ON f.subject = e.subject AND f.property <> e.property
        JOIN pair p ON p.property = f.property AND p.object = f.object
        JOIN holder h ON h.pair = p.pair AND h.subject <> e.subject
        JOIN static_here s ON s.subject = h.subject AND s.property = e.property
        WHERE s.object NOT IN (FROM edited)
        GROUP BY e.case_id, h.subject, e.property
    )
    SELECT case_id, subject, property, object, weight / 1e6 AS score FROM found ANTI JOIN own USING (case_id, object)
    QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY weight DESC, subject) <= $k
    ORDER BY case_id, weight DESC, subject
"""


def find_static_facts(connection: duckdb.DuckDBPyConnection, edits: pa.Table) -> None:
    """Tables ``static`` (subject, property, object) and ``edited`` (id), for the properties of some edits.

    A static fact is about an item that has one object of the property in both snapshots, the same item. Edited is every
    subject with a fact that only one of the snapshots has.

    Args:
        connection: With views ``old_facts``, ``new_facts``, ``old_entities`` and ``new_entities`` of two snapshots.
        edits: Columns case_id, subject, property; kept as table ``edits``.
    """
    connection.register("given", edits)
    connection.execute("CREATE OR REPLACE TABLE edits AS SELECT case_id, subject, property FROM given")
    connection.unregister("given")
    connection.execute(_TOUCHED)
    connection.execute(_STATIC)
    connection.execute(_EDITED)


def find_similar_facts(
    connection: duckdb.DuckDBPyConnection, *, items: int, max_df: int, k: int
) -> Iterator[pa.RecordBatch]:
    """The static facts of each edit's property whose subjects are most like the edited one.

    Likeness is the rarity of the (property, object) pairs that both have in the older snapshot; the edit's property
    does not count. Neither subject nor object of what is found was edited, and its object is none that the edited
    subject has.

    Args:
        connection: As find_static_facts left it.
        items: Items of the older snapshot.
        max_df: Pairs that more items have do not count.
        k: How many for each edit.

    Yields:
        Batches with the schema SIMILAR, by property of the edit and then by case.
    """
    connection.execute(_FEATURES)
    connection.execute(_PAIRS, {"items": float(items), "max_df": max_df})
    connection.execute(_HOLDERS)
    connection.execute(
        "CREATE OR REPLACE TABLE both_facts AS "
        "SELECT subject, property, object FROM old_facts SEMI JOIN edits USING (subject, property) UNION "
        "SELECT subject, property, object FROM new_facts SEMI JOIN edits USING (subject, property)"
    )
    cases = connection.sql("SELECT case_id, subject, property FROM edits ORDER BY property, case_id").to_arrow_table()
    for start in range(0, cases.num_rows, _EDITS_AT_ONCE):
        connection.register("chosen", cases.slice(start, _EDITS_AT_ONCE))
        found = connection.sql(_SIMILAR, params={"k": k}).to_arrow_table()
        connection.unregister("chosen")
        yield from found.cast(SIMILAR).to_batches()
