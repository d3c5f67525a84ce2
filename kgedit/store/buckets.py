"""Buckets: parts of a snapshot, each with all rows of the subjects whose ids have one hash.

A bucket is finished without the other ones: `write_bucket` reads its rows as parsed, and takes small tables of the
whole dump (Broadcast). It keeps no state between calls, so that it runs in a thread, a process, a Slurm task or a Spark
task. Row order and bytes depend on the rows alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, pairwise
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
from kgedit.store.facts import current_facts
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
"""Bytes of JSON: 400,000 statements of a full dump, or a million thin ones."""

_ROWS_AT_ONCE = 100_000
"""Claims and entities for which facts and digests are computed at once, about 70 MB; a block that has more is taken
alone."""

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
    """Rows of one bucket as parsed, in the order of the dump: all of them, or those of some consecutive blocks.

    Attributes:
        claims: Columns BUCKET_CLAIMS.
        entities: Columns BUCKET_ENTITIES, with redirects.
    """

    claims: pa.Table
    entities: pa.Table


ReadRows = Callable[[Mapping[str, Sequence[str]] | None], Iterable[BucketRows]]
"""Reads all rows of a bucket, some consecutive blocks at a time; may be called again. Takes the columns of ``claims``
and ``entities`` that are needed, None for all. Tables with further columns are permitted."""


def write_bucket(
    read: ReadRows,
    targets: Sequence[BucketTarget],
    broadcast: Broadcast,
    *,
    spill: Path,
    share: int = 1,
    threads: int = 1,
) -> list[Counter[str]]:
    """Write the claims, facts and entities of one bucket of each snapshot, with digests.

    The first occurrence of a repeated entity is kept, with its statements, and so is the first of equal statements. If
    different statements share an id, one of them keeps it and the others get "#2", "#3", ...

    The rows are read twice, so that they are never in memory together: first the ids, which show what is repeated.

    Args:
        read: Reads the rows as parsed.
        targets: The snapshots; several only if they are projections.
        broadcast: Tables of the whole dump.
        spill: Spill folder, for this call alone.
        share: Number of buckets that are finished at once and share cores and memory.
        threads: Number of threads that compute facts and digests of this bucket, each of other entities.

    Returns:
        For each snapshot the number of rows by COUNTED, and of statements by placement (kgedit.store.as_of.PLACES).
    """
    with open_engine(spill, memory=_MEMORY, share=share) as connection, ExitStack() as stack:
        written = [stack.enter_context(_BucketFiles(target)) for target in targets]
        repetitions = _find_repetitions(connection, read, broadcast.shared_ids)

        def finish(rows: BucketRows) -> list[_FinishedRows]:
            claims, entities = _complete(rows.claims, broadcast), rows.entities.select(ENTITIES.names)
            with connection.cursor() as own:  # a connection is not for several threads
                own.register("begun_item", broadcast.later_items)
                return [_finish(own, target, claims, entities) for target in targets]

        kept = chain.from_iterable(map(_divided, repetitions.left_out_of(_together(read(None)))))
        for finished in _in_threads(finish, kept, threads):
            for files, rows in zip(written, finished, strict=True):
                files.write(rows)
        for files in written:
            files.write_redirects()
            files.counts.update(repetitions.counts)
        return [files.counts for files in written]


COUNTED = (
    "claims", "claims with value", "facts", "entities", "redirects", "later entities", "repeated entities",
    "repeated statements", "statements of repeated entities",
)  # fmt: skip
"""Counts of `write_bucket`: rows of the three files, and rows left out."""


_WITH_IDS = {
    "claims": ("statement_id", "subject", "property", "version", "block"),
    "entities": ("id", "redirect_target", "block"),
}
"""Columns that show what is repeated."""


@dataclass(frozen=True, slots=True)
class _Repetitions:
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


def _find_repetitions(connection: duckdb.DuckDBPyConnection, read: ReadRows, shared_ids: pa.Table) -> _Repetitions:
    """Read hashes of all statement ids and, if some occur twice, the statements that may be repeated."""
    hashes, entities = [np.zeros(0, np.uint64)], [BUCKET_ENTITIES.empty_table().select(_WITH_IDS["entities"])]
    for rows in _together(read(_WITH_IDS)):
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
    return _Repetitions(in_first & ~is_copy, is_first, renamed, new_ids, counts)


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
    for rows in _together(read(_WITH_IDS)):
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


def _together(pieces: Iterable[BucketRows]) -> Iterator[BucketRows]:
    """Yield small pieces together, up to _ROWS_AT_ONCE rows."""
    waiting: list[BucketRows] = []
    count = 0
    for rows in pieces:
        more = rows.claims.num_rows + rows.entities.num_rows
        if waiting and count + more > _ROWS_AT_ONCE:
            yield _joined(waiting)
            waiting, count = [], 0
        waiting.append(rows)
        count += more
    if waiting:
        yield _joined(waiting)


def _joined(pieces: Sequence[BucketRows]) -> BucketRows:
    return BucketRows(*(pa.concat_tables(getattr(rows, name) for rows in pieces) for name in _WITH_IDS))


def _divided(rows: BucketRows) -> Iterator[BucketRows]:
    """Yield consecutive blocks, which contain whole entities, about _ROWS_AT_ONCE rows at a time."""
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
        yield BucketRows(*(
            table.slice(start[group], start[group + 1] - start[group]).combine_chunks()
            for table, start in zip((rows.claims, rows.entities), starts, strict=True)
        ))  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class _FinishedRows:
    """Some entities of a snapshot with all their claims.

    Attributes:
        claims: Columns CLAIMS_JUDGED.
        facts: Columns FACTS, in which a place is the row of a claim.
        entities: Columns ENTITIES_KEPT.
        counts: Rows that a projection left out, and placements.
    """

    claims: pa.Table
    facts: pa.Table
    entities: pa.Table
    counts: Counter[str]


def _finish(
    connection: duckdb.DuckDBPyConnection, target: BucketTarget, claims: pa.Table, entities: pa.Table
) -> _FinishedRows:
    """Compute facts and digests of whole entities with all their claims."""
    counts: Counter[str] = Counter()
    if target.as_of:
        projected = project(connection, claims, entities, date=target.date)
        counts["later entities"] = entities.num_rows - projected.entities.num_rows
        counts.update(projected.placements)
        claims, entities = projected.claims, projected.entities
    placed = claims.append_column("place", pa.array(np.arange(claims.num_rows)))
    facts = current_facts(connection, placed, target.date)
    return _FinishedRows(claims, facts, with_digests(connection, entities, placed, facts), counts)


def _in_threads(
    work: Callable[[BucketRows], list[_FinishedRows]], pieces: Iterable[BucketRows], threads: int
) -> Iterator[list[_FinishedRows]]:
    """Yield the result of each piece in order. At most as many pieces as threads wait, so that few are in memory."""
    if threads == 1:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[list[_FinishedRows]]] = deque()
        for rows in pieces:
            waiting.append(pool.submit(work, rows))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


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

    def write(self, rows: _FinishedRows) -> None:
        """Add rows after those that were written before, which determine the places of claims."""
        first = (self._target.number << 32) + self.counts["claims"]
        places = pa.array(np.arange(first, first + rows.claims.num_rows, dtype=np.int64))
        self.counts.update(rows.counts)
        self.counts["claims with value"] += int(pc.sum(pc.equal(rows.claims["snak"], "value")).as_py() or 0)
        self._add("claims", rows.claims.append_column("place", places))
        self._add("facts", _with_places_from(first, rows.facts))
        self._add("entities", rows.entities)

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


def _with_places_from(first: int, facts: pa.Table) -> pa.Table:
    """Facts whose places of claims begin with `first` instead of 0."""
    lists = facts["statement_places"].combine_chunks()
    places = {
        "statement_place": pc.add(facts["statement_place"], first),
        "statement_places": pa.ListArray.from_arrays(
            lists.offsets, pc.add(lists.values, first), type=lists.type, mask=lists.is_null()
        ),
    }
    for name, column in places.items():
        facts = facts.set_column(facts.schema.get_field_index(name), facts.schema.field(name), column)
    return facts
