"""Digest of an entity in a snapshot: its terms, claims and facts.

Comparing two snapshots compares the digests first and reads the rows only of entities whose digests differ. A delta
therefore costs little more than reading two columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgedit.store.compiled import find_compiled_hashes
from kgedit.store.engine import select
from kgedit.store.schemas import ENTITIES

ENTITIES_KEPT = ENTITIES.append(pa.field("digest", pa.uint64()))
"""Columns of a snapshot's entities; the digest of a redirect is NULL."""


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


_CLAIM = ("statement_id", "version", "restricted")
_FACT = ("property", "object", "statement_id", "start_time", "end_time", "point_time")
_ENTITY = ("kind", "label", "description", "datatype", "aliases")


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
    digest = np.array(_hashes(connection, entities, _ENTITY))
    places = np.asarray(claims["place"])
    order = np.argsort(places, kind="stable")
    statement = order[np.searchsorted(places, np.asarray(facts["statement_place"]), sorter=order)]
    facts = facts.append_column("statement_id", claims["statement_id"].combine_chunks().take(statement))
    for rows, columns in ((claims, _CLAIM), (facts, _FACT)):
        entity = pc.index_in(rows["subject"], value_set=entities["id"].combine_chunks())
        np.bitwise_xor.at(digest, np.asarray(entity), _hashes(connection, rows, columns))
    return entities.append_column("digest", pa.array(digest)).cast(ENTITIES_KEPT)


def _hashes(connection: duckdb.DuckDBPyConnection, rows: pa.Table, columns: Sequence[str]) -> NDArray[np.uint64]:
    """Half of the MD5 of some columns of each row, which no library's version changes."""
    arrays = [rows[column].combine_chunks() for column in columns]
    if compiled := find_compiled_hashes():
        return np.ascontiguousarray(compiled(arrays, "\x1e")[:, 8:]).view(np.uint64).ravel()
    texts = pc.binary_join_element_wise(*(pc.fill_null(_written(array), "\x1e") for array in arrays), "\x1f")
    query, table = "SELECT md5_number_lower(text) AS hashed FROM texts", pa.table({"text": texts})
    return np.asarray(select(query, connection=connection, texts=table)["hashed"])


def _written(column: pa.Array) -> pa.StringArray:
    return pc.binary_join(column, "\x1d") if pa.types.is_list(column.type) else column.cast(pa.string())
