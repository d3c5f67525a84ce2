"""Digest of an entity in a snapshot: its terms, claims and facts.

Comparing two snapshots compares the digests first and reads the rows only of entities whose digests differ. A delta
therefore costs little more than reading two columns.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgedit.store.engine import select
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


_CLAIM = _number("statement_id", "version", "restricted")
_FACT = _number("property", "object", "statement_id", "start_time", "end_time", "point_time")
_ENTITY = _number("kind", "label", "description", "datatype", "array_to_string(aliases, chr(29))")


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
    digest = _numbers(connection, _ENTITY, entities)
    places = np.asarray(claims["place"])
    order = np.argsort(places, kind="stable")
    statement = order[np.searchsorted(places, np.asarray(facts["statement_place"]), sorter=order)]
    facts = facts.append_column("statement_id", claims["statement_id"].combine_chunks().take(statement))
    for sql, rows in ((_CLAIM, claims), (_FACT, facts)):
        entity = pc.index_in(rows["subject"], value_set=entities["id"].combine_chunks())
        np.bitwise_xor.at(digest, np.asarray(entity), _numbers(connection, sql, rows))
    return entities.append_column("digest", pa.array(digest)).cast(ENTITIES_KEPT)


def _numbers(connection: duckdb.DuckDBPyConnection, sql: str, rows: pa.Table) -> NDArray[np.uint64]:
    """Number of each row, in their order."""
    return np.array(select(f"SELECT {sql} AS number FROM rows", connection=connection, rows=rows)["number"])
