"""Buckets: parts of a snapshot, each with all rows of the subjects whose ids have one hash.

A bucket is finished without the other ones: `write_bucket` takes all of its rows as parsed, and small tables of the
whole dump (Broadcast). It keeps no state between calls and everything that it takes can be pickled, so that it runs in
a thread, a process, a Slurm task or a Spark task. Row order and bytes depend on the rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgedit.store.as_of import LATER_ITEMS, project
from kgedit.store.bucket_files import RowGroups, bucket_file
from kgedit.store.digests import ENTITIES_KEPT, with_digests
from kgedit.store.engine import open_engine
from kgedit.store.facts import current_facts, with_places
from kgedit.store.schemas import CLAIMS, CLAIMS_JUDGED, CLAIMS_KEPT, ENTITIES, FACTS

BLOCK = pa.field("block", pa.int32())
"""Number of the block (or split) of the dump in which a row was read. An entity's rows share a block."""

BUCKET_CLAIMS = CLAIMS.append(BLOCK)
BUCKET_ENTITIES = ENTITIES.append(BLOCK)
"""Columns of a bucket's rows as parsed."""

DATATYPES = pa.schema([("id", pa.string()), ("datatype", pa.string())])

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

REDIRECTS = pa.schema([("source", pa.string()), ("target", pa.string())])

TEXT_PER_BUCKET = 512 * 2**20
"""Bytes of JSON: 400,000 statements of a full dump, or a million thin ones, which take 850 MB to finish."""

_ROWS_AT_ONCE = 50_000
"""Claims and entities for which facts and digests are computed at once, about 50 MB; a block that has more is taken
alone. Four times as many take 170 MB more, and no less time."""

_MEMORY = "448MB"
"""DuckDB's memory to finish a bucket, on two cores; the rest spills to disk."""

_PRIME, _BASIS = np.uint64(0x100000001B3), np.uint64(0xCBF29CE484222325)  # FNV-1a with 64 bits
_MIX = np.uint64(0xFF51AFD7ED558CCD)  # from MurmurHash3's finalizer: FNV's low bits alone are not even


def bucket_count(text_bytes: int) -> int:
    """Number of buckets for a dump: a power of two, so that bucket k of B is the buckets k and k + B of 2B.

    Args:
        text_bytes: Bytes of the decompressed dump, which may be estimated (kgedit.store.sources.DumpFile.text_bytes).

    >>> bucket_count(10**6), bucket_count(10**9), bucket_count(1_600 * 10**9)
    (1, 2, 4096)
    """
    return 1 << (max(text_bytes - 1, 0) // TEXT_PER_BUCKET).bit_length()


def bucket_of(ids: pa.Array | pa.ChunkedArray, buckets: int) -> pa.Array:
    """Bucket of each id: the low bits of a hash of its UTF-8 text, which no library's version changes.

    Args:
        ids: Ids of entities, none of them null.
        buckets: Number of buckets, a power of two, at most 65,536.

    Returns:
        Numbers in [0, buckets), as uint16.

    >>> bucket_of(pa.array(["Q42", "P31", "Q42"]), 8).to_pylist()
    [4, 2, 4]
    """
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    encoded = ids.dictionary_encode()  # the claims of a subject are neighbours, so that few texts are hashed
    low = _hashes(encoded.dictionary.cast(pa.binary())) & np.uint64(buckets - 1)
    return pa.array(low.astype(np.uint16)[encoded.indices.to_numpy(zero_copy_only=False)])


def divide(rows: pa.Table, column: str, buckets: int) -> list[pa.Table]:
    """Rows of each bucket, in their order.

    Args:
        rows: The rows.
        column: Column of the ids whose bucket counts, none of them null.
        buckets: Number of buckets, as in `bucket_of`.
    """
    of = bucket_of(rows[column], buckets).to_numpy()
    order = np.argsort(of, kind="stable")
    ends = np.searchsorted(of[order], np.arange(buckets + 1)).tolist()
    by_bucket = rows.take(pa.array(order))
    return [by_bucket.slice(start, end - start) for start, end in pairwise(ends)]


def _hashes(texts: pa.Array) -> NDArray[np.uint64]:
    length = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(length) - length
    content = np.frombuffer(b"".join(texts.to_pylist()) + b"\0", np.uint8)
    hashes = np.full(len(texts), _BASIS)
    with np.errstate(over="ignore"):
        for place in range(int(length.max(initial=0))):
            reached = length > place
            hashes[reached] = (hashes[reached] ^ content[starts[reached] + place]) * _PRIME
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _MIX
    return hashes ^ (hashes >> np.uint64(33))


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """What a bucket needs of the other ones.

    Attributes:
        restrictive: Properties that limit what a statement applies to when they are qualifiers.
        datatypes: Datatypes of properties that their statements take (DATATYPES); empty if statements have theirs.
        shared_ids: Statements that share an id with a statement of another bucket (SHARED_IDS).
        later_items: For projections, items that may not have existed on the first day (kgedit.store.as_of).
    """

    restrictive: tuple[str, ...] = ()
    datatypes: pa.Table = field(default_factory=DATATYPES.empty_table)
    shared_ids: pa.Table = field(default_factory=SHARED_IDS.empty_table)
    later_items: pa.Table = field(default_factory=LATER_ITEMS.empty_table)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTarget:
    """Files of one bucket in a snapshot that is written.

    Attributes:
        folder: Existing folder of the snapshot.
        date: Day number on which its facts are current.
        redirects: Redirects whose source has this bucket (REDIRECTS), by source.
        as_of: Whether the snapshot is projected from a dump of a later day (kgedit.store.as_of).
        number: Number of the bucket.
        buckets: Number of buckets of the snapshot.
    """

    folder: Path
    date: int
    redirects: pa.Table
    as_of: bool = False
    number: int = 0
    buckets: int = 1

    def file(self, table: str) -> Path:
        """Path of the bucket's claims, facts or entities."""
        return self.folder / bucket_file(table, self.number, self.buckets)


@dataclass(frozen=True, slots=True)
class BucketRows:
    """All rows of one bucket as parsed, in the order of the dump.

    Attributes:
        claims: Columns BUCKET_CLAIMS.
        entities: Columns BUCKET_ENTITIES, with redirects.
    """

    claims: pa.Table
    entities: pa.Table


def write_bucket(
    rows: BucketRows, targets: Sequence[BucketTarget], broadcast: Broadcast, *, spill: Path, share: int = 1
) -> list[Counter[str]]:
    """Write the claims, facts and entities of one bucket of each snapshot, with digests.

    The first occurrence of a repeated entity is kept, with its statements, and so is the first of equal statements. If
    different statements share an id, one of them keeps it and the others get "#2", "#3", ...

    Args:
        rows: The rows as parsed.
        targets: The snapshots; several only if they are projections.
        broadcast: Tables of the whole dump.
        spill: Spill folder, for this call alone.
        share: Number of buckets that are finished at once and share cores and memory.

    Returns:
        For each snapshot the number of rows by COUNTED, and of statements by placement (kgedit.store.as_of.PLACES).
    """
    with open_engine(spill, memory=_MEMORY, share=share) as connection, ExitStack() as stack:
        connection.register("begun_item", broadcast.later_items)
        written = [stack.enter_context(_BucketFiles(target)) for target in targets]
        kept, left_out = _without_repetitions(connection, rows, broadcast)
        for claims, entities in _groups(kept):
            claims_kept = _complete(claims, broadcast)
            for files in written:
                files.write(connection, claims_kept, entities.select(ENTITIES.names))
        for files in written:
            files.write_redirects()
            files.counts.update(left_out)
        return [files.counts for files in written]


COUNTED = (
    "claims", "claims with value", "facts", "entities", "redirects", "later entities", "repeated entities",
    "repeated statements", "statements of repeated entities",
)  # fmt: skip
"""Counts of `write_bucket`: rows of the three files, and rows left out."""


def _without_repetitions(
    connection: duckdb.DuckDBPyConnection, rows: BucketRows, broadcast: Broadcast
) -> tuple[BucketRows, Counter[str]]:
    """Rows without repeated entities and statements, with unique statement ids; and the numbers of rows left out."""
    entities, several = _first_entities(rows.entities)
    claims = rows.claims
    if several.num_rows:
        place = pc.index_in(claims["subject"], value_set=several["id"])
        in_first = pc.equal(several["block"].combine_chunks().take(place.combine_chunks()), claims["block"])
        claims = claims.filter(pc.fill_null(in_first, True))
    described = rows.entities.num_rows - int(pc.sum(pc.is_valid(rows.entities["redirect_target"])).as_py() or 0)
    unique = _with_unique_ids(connection, claims, broadcast.shared_ids)
    left_out = Counter({
        "repeated entities": described - entities.num_rows,
        "statements of repeated entities": rows.claims.num_rows - claims.num_rows,
        "repeated statements": claims.num_rows - unique.num_rows,
    })  # fmt: skip
    return BucketRows(unique, entities), left_out


def _first_entities(entities: pa.Table) -> tuple[pa.Table, pa.Table]:
    """First rows of the entities, without redirects; and (id, block) of the first row of those with several."""
    described = entities.filter(pc.is_null(entities["redirect_target"]))
    codes = described["id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first, times = np.unique(codes, return_index=True, return_counts=True)
    if len(first) == described.num_rows:
        return described, described.select(["id", "block"]).slice(0, 0)
    return described.take(np.sort(first)), described.select(["id", "block"]).take(first[times > 1])


_SHARED = """
    WITH candidate AS (
        SELECT place, statement_id, subject, property, version FROM claims
        WHERE hash(statement_id) IN (SELECT hash(statement_id) FROM claims GROUP BY ALL HAVING count(*) > 1)
           OR statement_id IN (SELECT statement_id FROM shared_ids)
    ), ranked AS (
        SELECT *, dense_rank() OVER (PARTITION BY statement_id ORDER BY subject, property, version) AS nth_here,
               row_number() OVER (PARTITION BY statement_id, version ORDER BY place) AS copy
        FROM candidate
    )
    SELECT place - 1 AS row, copy > 1 AS is_copy, statement_id || '#' || coalesce(nth, nth_here) AS new_id
    FROM ranked LEFT JOIN shared_ids USING (statement_id, subject, property, version)
    WHERE copy > 1 OR coalesce(nth, nth_here) > 1 ORDER BY row
"""
"""Rows to leave out or to rename. Hashing first keeps the many ids that occur once out of memory."""


def _with_unique_ids(connection: duckdb.DuckDBPyConnection, claims: pa.Table, shared_ids: pa.Table) -> pa.Table:
    narrow = claims.select(["statement_id", "subject", "property", "version"])
    connection.register("claims", with_places(narrow))
    connection.register("shared_ids", shared_ids)
    try:
        found = connection.sql(_SHARED).to_arrow_table()
    finally:
        connection.unregister("claims")
        connection.unregister("shared_ids")
    if not found.num_rows:
        return claims
    row, is_copy = (found[name].to_numpy() for name in ("row", "is_copy"))
    renamed, left_out = np.zeros(claims.num_rows, np.bool_), np.zeros(claims.num_rows, np.bool_)
    renamed[row[~is_copy]], left_out[row[is_copy]] = True, True
    new_ids = found["new_id"].filter(pa.array(~is_copy)).combine_chunks()
    ids = pc.replace_with_mask(claims["statement_id"].combine_chunks(), pa.array(renamed), new_ids)
    place = claims.schema.get_field_index("statement_id")
    return claims.set_column(place, "statement_id", ids).filter(pa.array(~left_out))


def _groups(rows: BucketRows) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Consecutive blocks of claims and entities, which contain whole entities, about _ROWS_AT_ONCE rows at a time."""
    blocks = [table["block"].to_numpy() for table in (rows.claims, rows.entities)]
    numbers, sizes = np.unique(np.concatenate(blocks), return_counts=True)
    cuts, waiting = [], 0
    for number, size in zip(numbers.tolist(), sizes.tolist(), strict=True):
        if waiting and waiting + size > _ROWS_AT_ONCE:
            cuts.append(number)
            waiting = 0
        waiting += size
    starts = [[0, *np.searchsorted(block, cuts).tolist(), len(block)] for block in blocks]
    for group in range(len(cuts) + 1):
        claims, entities = (
            table.slice(start[group], start[group + 1] - start[group])
            for table, start in zip((rows.claims, rows.entities), starts, strict=True)
        )
        yield claims, entities


def _complete(claims: pa.Table, broadcast: Broadcast) -> pa.Table:
    """Claims with the columns CLAIMS_JUDGED: datatypes of their properties, and whether they are restricted."""
    if broadcast.datatypes.num_rows:
        known = broadcast.datatypes["datatype"].combine_chunks()
        place = pc.index_in(claims["property"], value_set=broadcast.datatypes["id"].combine_chunks()).combine_chunks()
        of_property = pc.coalesce(known.take(place), claims["datatype"].combine_chunks())
        claims = claims.set_column(claims.schema.get_field_index("datatype"), "datatype", of_property)
    qualifiers = claims["qualifier_properties"].combine_chunks()
    limits = pc.is_in(qualifiers.flatten(), value_set=pa.array(broadcast.restrictive, pa.string()))
    restricted = np.zeros(claims.num_rows, np.bool_)
    restricted[pc.list_parent_indices(qualifiers).filter(limits).to_numpy(zero_copy_only=False)] = True
    return claims.drop_columns("block").append_column("restricted", pa.array(restricted)).cast(CLAIMS_JUDGED)


class _BucketFiles(ExitStack):
    """Writes the three files of a bucket and counts their rows; a context manager."""

    def __init__(self, target: BucketTarget) -> None:
        super().__init__()
        self.counts = Counter(dict.fromkeys(COUNTED, 0))
        self._target = target
        schemas = {"claims": CLAIMS_KEPT, "facts": FACTS, "entities": ENTITIES_KEPT}
        self._parts = {
            name: self.enter_context(RowGroups(target.file(name), schema)) for name, schema in schemas.items()
        }

    def write(self, connection: duckdb.DuckDBPyConnection, claims: pa.Table, entities: pa.Table) -> None:
        """Add whole entities with all their claims."""
        came = entities.num_rows
        if self._target.as_of:
            projected = project(connection, claims, entities, date=self._target.date)
            claims, entities = projected.claims, projected.entities
            self.counts.update(projected.placements)
        claims = self._with_places(claims)
        facts = current_facts(connection, claims, self._target.date)
        self.counts["later entities"] += came - entities.num_rows
        self.counts["claims with value"] += int(pc.sum(pc.equal(claims["snak"], "value")).as_py() or 0)
        self._add("claims", claims)
        self._add("facts", facts)
        self._add("entities", with_digests(connection, entities, claims, facts))

    def _with_places(self, claims: pa.Table) -> pa.Table:
        """Claims with the columns CLAIMS_KEPT."""
        first = (self._target.number << 32) + self.counts["claims"]
        place = pa.array(np.arange(first, first + claims.num_rows, dtype=np.int64))
        return claims.append_column("place", place)

    def write_redirects(self) -> None:
        """Add the redirects after all entities."""
        redirects = self._target.redirects
        self.counts["redirects"] += redirects.num_rows
        kinds = pc.if_else(pc.starts_with(redirects["source"], "P"), "property", "item")
        known = {"id": redirects["source"], "kind": kinds, "redirect_target": redirects["target"]}
        nothing = {"aliases": pa.array([[]] * redirects.num_rows, pa.list_(pa.string()))}
        columns = [
            known.get(name, nothing.get(name, pa.nulls(redirects.num_rows, ENTITIES_KEPT.field(name).type)))
            for name in ENTITIES_KEPT.names
        ]
        self._parts["entities"].write(pa.table(columns, names=ENTITIES_KEPT.names))

    def _add(self, table: str, rows: pa.Table) -> None:
        self.counts[table] += rows.num_rows
        self._parts[table].write(rows)
