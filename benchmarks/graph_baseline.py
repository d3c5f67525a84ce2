"""Changed edges and two hops between two snapshots with DuckDB alone, directly from the store's claims.

Baseline of the graph's figures, so it must not change with the graph's model: it reads only ``claims.parquet`` and
``entities.parquet``, and determines the current statements in each run. One rule was added with the store's facts:
statements with a restrictive qualifier are excluded. For stores without facts.parquet, this rule is not applied.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

_VALUE_ID = """
    'V' || md5(concat_ws(chr(31), datatype, coalesce(value, ''), coalesce(unit, ''), coalesce(language, ''),
                         coalesce(precision, ''), coalesce(calendar, '')))
"""

_CURRENT = """
    CREATE TABLE {side}_current AS
    WITH holding AS (
        SELECT subject, property, rank, statement_id, coalesce(r.redirect_target, c.object, {value_id}) AS object,
               c.object[1] = 'Q' IS TRUE AS is_item
        FROM '{claims}' c
        LEFT JOIN (SELECT id, redirect_target FROM '{redirects}' WHERE redirect_target IS NOT NULL) r ON r.id = c.object
        WHERE snak = 'value' AND rank <> 'deprecated'
          AND end_precision IS DISTINCT FROM -1 AND (end_until IS NULL OR end_until > {date})
          AND (start_first IS NULL OR start_first <= {date}) {rule}
    )
    SELECT * FROM holding
    QUALIFY rank = 'preferred' OR count(*) FILTER (rank = 'preferred') OVER (PARTITION BY subject, property) = 0
"""

_CHANGED_EDGES = """
    WITH facts AS (
        SELECT subject, property, object, bool_and(is_item) AS is_item, bool_or(side = 'old') AS in_old,
               bool_or(side = 'new') AS in_new, min(statement_id) FILTER (side = 'new') AS statement_id
        FROM (SELECT 'old' AS side, * FROM old_current UNION ALL SELECT 'new', * FROM new_current) GROUP BY ALL
    )
    SELECT subject, property,
           coalesce(list(object ORDER BY object) FILTER (in_old), []) AS old_objects,
           coalesce(list(object ORDER BY object) FILTER (in_new), []) AS new_objects,
           coalesce(list(statement_id ORDER BY object) FILTER (in_new), []) AS statement_ids,
           bool_and(is_item) AS item_valued,
           subject IN (SELECT id FROM old_entities) AS subject_in_old,
           subject IN (SELECT id FROM new_entities) AS subject_in_new
    FROM facts GROUP BY subject, property HAVING bool_or(in_old <> in_new)
    ORDER BY subject, property
"""

_TWO_HOPS = """
    WITH added AS (
        SELECT DISTINCT subject, property, object FROM new_current n
        WHERE is_item AND subject[1] = 'Q' AND property NOT IN {stop}
          AND subject IN (SELECT id FROM old_entities) AND subject IN (SELECT id FROM new_entities)
          AND NOT EXISTS (SELECT 1 FROM old_current o
                          WHERE o.subject = n.subject AND o.property = n.property AND o.object = n.object)
    )
    SELECT a.subject, a.property AS first_property, a.object AS bridge, b.property AS second_property, b.object
    FROM added a JOIN added b ON b.subject = a.object
    WHERE b.object <> a.subject AND b.object <> a.object AND a.object <> a.subject ORDER BY ALL
"""


def changed_edges(old: Snapshot, new: Snapshot) -> pa.Table:
    """Result of cypher/read/changed_edges.cypher."""
    return _answer(old, new, _CHANGED_EDGES)


def two_hop_changes(old: Snapshot, new: Snapshot) -> pa.Table:
    """Result of cypher/read/two_hop_changes.cypher."""
    return _answer(old, new, _TWO_HOPS.format(stop=TWO_HOP_STOP_LIST))


def same_rows(found: pa.Table, expected: pa.Table) -> bool:
    """Whether two tables agree in the columns that both have; ids of literals may be any that begin with V."""
    columns = [name for name in expected.column_names if name in found.column_names]
    return all(
        [_masked(value) for value in found[name].to_pylist()]
        == [_masked(value) for value in expected[name].to_pylist()]
        for name in columns
    )


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return "V" if isinstance(value, str) and value.startswith("V") else value


def _answer(old: Snapshot, new: Snapshot, query: str) -> pa.Table:
    rule = "AND NOT restricted" if (new.folder / "facts.parquet").is_file() else ""
    with duckdb.connect() as connection:
        for side, snapshot in (("old", old), ("new", new)):
            connection.execute(
                f"CREATE VIEW {side}_entities AS SELECT id FROM '{snapshot.entities}' WHERE redirect_target IS NULL"
            )
            names = {"side": side, "claims": snapshot.claims, "redirects": new.entities, "date": snapshot.date}
            connection.execute(_CURRENT.format(**names, rule=rule, value_id=_VALUE_ID))
        found: pa.Table = connection.sql(query).to_arrow_table()
        return found
