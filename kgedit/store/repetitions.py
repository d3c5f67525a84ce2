"""Finds repeated entities and statements in a bucket, and statements that share an id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgedit.store.bucket_rows import BUCKET_ENTITIES, BucketRows, ReadRows, together

SHARED_IDS = pa.schema(
    [
        ("statement_id", pa.string()),
        ("subject", pa.string()),
        ("property", pa.string()),
        ("version", pa.int64()),
        ("nth", pa.int64()),
    ]
)
"""Statements of several buckets that share an id; the first one (nth = 1) keeps it."""


_WITH_IDS = {
    "claims": ("statement_id", "subject", "property", "version", "block"),
    "entities": ("id", "redirect_target", "block"),
}
"""Columns that show what is repeated."""


@dataclass(frozen=True, slots=True)
class Repetitions:
    """Rows of a bucket that are left out, and statements that get another id.

    Attributes:
        claims: Whether each claim is kept.
        entities: Whether each entity is kept; redirects are not.
        renamed: Positions of the claims that get another id, ascending.
        new_ids: Their ids.
        counts: Numbers of rows left out, by reason.
    """

    claims: NDArray[np.bool_]
    entities: NDArray[np.bool_]
    renamed: NDArray[np.int64]
    new_ids: pa.Array
    counts: Counter[str]

    def left_out_of(self, pieces: Iterable[BucketRows]) -> Iterator[BucketRows]:
        """Yield the rows that are kept, with unique statement ids."""
        claim = entity = 0
        for rows in pieces:
            claims = self._with_new_ids(rows.claims, claim)
            kept = [
                table if flags.all() else table.filter(pa.array(flags))
                for table, flags in (
                    (claims, self.claims[claim : claim + claims.num_rows]),
                    (rows.entities, self.entities[entity : entity + rows.entities.num_rows]),
                )
            ]
            claim, entity = claim + claims.num_rows, entity + rows.entities.num_rows
            yield BucketRows(*kept)

    def _with_new_ids(self, claims: pa.Table, first: int) -> pa.Table:
        start, end = np.searchsorted(self.renamed, (first, first + claims.num_rows)).tolist()
        if start == end:
            return claims
        renamed = np.zeros(claims.num_rows, np.bool_)
        renamed[self.renamed[start:end] - first] = True
        new_ids = self.new_ids.slice(start, end - start)
        ids = pc.replace_with_mask(claims["statement_id"].combine_chunks(), pa.array(renamed), new_ids)
        return claims.set_column(claims.schema.get_field_index("statement_id"), "statement_id", ids)


def find_repetitions(connection: duckdb.DuckDBPyConnection, read: ReadRows, shared_ids: pa.Table) -> Repetitions:
    """Read hashes of all statement ids and, if some occur twice, the statements that may be repeated."""
    hashes, entities = [np.zeros(0, np.uint64)], [BUCKET_ENTITIES.empty_table().select(_WITH_IDS["entities"])]
    for rows in together(read(_WITH_IDS)):
        hashes.append(_hashes_of(connection, rows.claims))
        # Taken, which copies: a column of what is read may keep the other ones in memory.
        entities.append(rows.entities.select(_WITH_IDS["entities"]).take(np.arange(rows.entities.num_rows)))
    hashed = np.concatenate(hashes)
    described, is_first, several = _first_entities(pa.concat_tables(entities))
    ordered = np.sort(hashed)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    in_first, is_copy = np.ones(len(hashed), np.bool_), np.zeros(len(hashed), np.bool_)
    renamed, new_ids = np.zeros(0, np.int64), pa.array([], pa.string())
    if len(twice) or several.num_rows or shared_ids.num_rows:
        in_first, candidates = _candidates(read, hashed, twice, several, shared_ids)
        shared = _shared_ids(connection, candidates, shared_ids)
        places, copies = (shared[name].to_numpy() for name in ("place", "is_copy"))
        is_copy[places[copies]] = True
        renamed, new_ids = places[~copies], shared["new_id"].filter(pa.array(~copies)).combine_chunks()
    counts = Counter({
        "repeated entities": int(described.sum() - is_first.sum()),
        "statements of repeated entities": int((~in_first).sum()),
        "repeated statements": int(is_copy.sum()),
    })  # fmt: skip
    return Repetitions(in_first & ~is_copy, is_first, renamed, new_ids, counts)


def _candidates(
    read: ReadRows, hashed: NDArray[np.uint64], twice: NDArray[np.uint64], several: pa.Table, shared_ids: pa.Table
) -> tuple[NDArray[np.bool_], pa.Table]:
    """Which claims belong to the first row of their entity; and those of them whose id may be that of another claim.

    Args:
        read: Reads the rows as parsed.
        hashed: Hash of each statement's id.
        twice: Hashes that occur more than once.
        several: Columns id and block of the first row of each entity with several rows.
        shared_ids: Statements that share an id with a statement of another bucket (SHARED_IDS).

    Returns:
        A flag for each claim, and the columns _WITH_IDS with ``place``, the position of the claim.
    """
    in_first, candidates, start = [], [], 0
    for rows in together(read(_WITH_IDS)):
        claims, end = rows.claims, start + rows.claims.num_rows
        in_first.append(_of_first_entities(claims, several))
        is_shared = pc.is_in(claims["statement_id"], value_set=shared_ids["statement_id"]).to_numpy()
        candidate = np.flatnonzero((np.isin(hashed[start:end], twice) | is_shared) & in_first[-1])
        place = pa.array(candidate + start)
        candidates.append(claims.select(_WITH_IDS["claims"]).take(candidate).append_column("place", place))
        start = end
    return np.concatenate(in_first), pa.concat_tables(candidates)


def _hashes_of(connection: duckdb.DuckDBPyConnection, claims: pa.Table) -> NDArray[np.uint64]:
    """Hash of each statement's id. Most ids occur once, and 8 bytes stand for one of 45."""
    connection.register("claims", claims)
    try:
        hashed: pa.Table = connection.sql("SELECT hash(statement_id) AS hashed FROM claims").to_arrow_table()
    finally:
        connection.unregister("claims")
    return np.asarray(hashed["hashed"])


def _of_first_entities(claims: pa.Table, several: pa.Table) -> NDArray[np.bool_]:
    """Which claims belong to the first row of their entity; `several` has (id, block) of entities with several rows."""
    if not several.num_rows:
        return np.ones(claims.num_rows, np.bool_)
    place = pc.index_in(claims["subject"], value_set=several["id"]).combine_chunks()
    same = pc.equal(several["block"].combine_chunks().take(place), claims["block"])
    return np.asarray(pc.fill_null(same, True))


def _first_entities(entities: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.bool_], pa.Table]:
    """Rows that are not redirects; of them the first ones of an entity; and (id, block) of entities with several.

    Args:
        entities: Columns id, redirect_target and block.
    """
    described = entities["redirect_target"].is_null().to_numpy()
    rows = np.flatnonzero(described)
    codes = entities["id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first, times = np.unique(codes[rows], return_index=True, return_counts=True)
    is_first = np.zeros(entities.num_rows, np.bool_)
    is_first[rows[first]] = True
    return described, is_first, entities.select(["id", "block"]).take(rows[first[times > 1]])


_SHARED = """
    WITH ranked AS (
        SELECT *, dense_rank() OVER (PARTITION BY statement_id ORDER BY subject, property, version) AS nth_here,
               row_number() OVER (PARTITION BY statement_id, version ORDER BY place) AS copy
        FROM candidates
    )
    SELECT place, copy > 1 AS is_copy, statement_id || '#' || coalesce(nth, nth_here) AS new_id
    FROM ranked LEFT JOIN shared_ids USING (statement_id, subject, property, version)
    WHERE copy > 1 OR coalesce(nth, nth_here) > 1 ORDER BY place
"""


def _shared_ids(connection: duckdb.DuckDBPyConnection, candidates: pa.Table, shared_ids: pa.Table) -> pa.Table:
    """Statements to leave out or to rename: place (ascending), is_copy and new_id."""
    connection.register("candidates", candidates)
    connection.register("shared_ids", shared_ids)
    try:
        return connection.sql(_SHARED).to_arrow_table()
    finally:
        connection.unregister("candidates")
        connection.unregister("shared_ids")
