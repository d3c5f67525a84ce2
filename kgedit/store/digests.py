"""Digest of an entity in a snapshot: its terms, claims and facts.

Comparing two snapshots compares the digests first and reads the rows only of entities whose digests differ. A delta
therefore costs little more than reading two columns.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from kgedit.store.facts import with_places, with_statement_ids
from kgedit.store.schemas import ENTITIES

ENTITIES_KEPT = ENTITIES.append(pa.field("digest", pa.uint64()))
"""Columns of a snapshot's entities; the digest of a redirect is NULL."""


def _number(*columns: str) -> str:
    """SQL for a 64-bit hash of columns that does not depend on the version of DuckDB."""
    parts = ", ".join(f"coalesce({column}::VARCHAR, chr(30))" for column in columns)
    return f"md5_number_lower(concat_ws(chr(31), {parts}))"


def changed_entities(older: str, newer: str) -> str:
    """SQL of the entities whose digests differ in two relations of entities: id, in_old, in_new.

    All other entities have the same terms, statements and facts in both.

    Args:
        older: SQL relation of a snapshot's entities, without redirects.
        newer: That of the newer snapshot.
    """
    return f"""
        SELECT coalesce(o.id, n.id) AS id, o.id IS NOT NULL AS in_old, n.id IS NOT NULL AS in_new
        FROM {older} o FULL JOIN {newer} n ON o.id = n.id
        WHERE o.digest IS DISTINCT FROM n.digest
    """


_DIGESTS = f"""
    WITH part AS (
        SELECT subject AS id, {_number("statement_id", "version", "restricted")} AS number FROM claims
        UNION ALL
        SELECT subject,
               {_number("property", "object", "statement_id", "start_time", "end_time", "point_time")}
        FROM ({with_statement_ids("facts", "claims")})
    ), of_rows AS (
        SELECT id, bit_xor(number) AS number FROM part GROUP BY id
    )
    SELECT e.*, xor({_number("kind", "label", "description", "datatype", "array_to_string(aliases, chr(29))")},
                    coalesce(number, 0)) AS digest
    FROM entities e LEFT JOIN of_rows USING (id) ORDER BY place
"""


def with_digests(
    connection: duckdb.DuckDBPyConnection, entities: pa.Table, claims: pa.Table, facts: pa.Table
) -> pa.Table:
    """Add digests to entities, keeping their order.

    Args:
        connection: Connection to use; no tables are left in it.
        entities: Entities with the schema ENTITIES, without redirects.
        claims: All claims of these entities.
        facts: All facts of these entities.
    """
    for name, table in (("entities", with_places(entities)), ("claims", claims), ("facts", facts)):
        connection.register(name, table)
    try:
        found: pa.Table = connection.sql(_DIGESTS).to_arrow_table()
    finally:
        for name in ("entities", "claims", "facts"):
            connection.unregister(name)
    return found.drop_columns("place").cast(ENTITIES_KEPT)
