"""A digest of all that a snapshot says of an entity: its words, claims and facts.

Two snapshots are compared by the digests first. Only entities whose digests differ are looked at row by row, which is
what makes a delta cost little more than reading two columns.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from kgedit.store.facts import with_places
from kgedit.store.schemas import ENTITIES

ENTITIES_KEPT = ENTITIES.append(pa.field("digest", pa.uint64()))
"""Columns of a snapshot's entities; a redirect has no digest."""


def _number(*columns: str) -> str:
    """SQL for a number of 64 bits that stands for these columns, the same with every version of DuckDB."""
    parts = ", ".join(f"coalesce({column}::VARCHAR, chr(30))" for column in columns)
    return f"md5_number_lower(concat_ws(chr(31), {parts}))"


_DIGESTS = f"""
    WITH part AS (
        SELECT subject AS id, {_number("statement_id", "version", "restricted")} AS number FROM claims
        UNION ALL
        SELECT subject,
               {_number("property", "object", "statement_id", "start_time", "end_time", "point_time")} FROM facts
    ), of_rows AS (
        SELECT id, bit_xor(number) AS number FROM part GROUP BY id
    )
    SELECT e.*, xor({_number("kind", "label", "description", "datatype", "array_to_string(aliases, chr(29))")},
                    coalesce(number, 0)) AS digest
    FROM entities e LEFT JOIN of_rows USING (id) ORDER BY place
"""  # noqa: S608 - our own names


def with_digests(
    connection: duckdb.DuckDBPyConnection, entities: pa.Table, claims: pa.Table, facts: pa.Table
) -> pa.Table:
    """Entities with their digests, in the same order.

    Args:
        connection: Does the work; nothing of it is left there.
        entities: With the schema ENTITIES; no redirects.
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
