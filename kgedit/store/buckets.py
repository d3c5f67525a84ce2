"""Buckets: parts of a snapshot, each with all rows of the subjects whose ids have one hash.

A bucket is finished without the other ones: `write_bucket` reads its rows as parsed, and takes small tables of the
whole dump (Broadcast). It keeps no state between calls, so that it runs in a thread, a process, a Slurm task or a Spark
task. Row order and bytes depend on the rows alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.as_of import LATER_ITEMS, project
from kgedit.store.bucket_files import RowGroups, bucket_file
from kgedit.store.bucket_rows import BucketRows, ReadRows, divided, together
from kgedit.store.digests import ENTITIES_KEPT, with_digests
from kgedit.store.engine import open_cursor, open_engine
from kgedit.store.facts import current_facts
from kgedit.store.repetitions import SHARED_IDS, find_repetitions
from kgedit.store.schemas import CLAIMS_JUDGED, CLAIMS_KEPT, ENTITIES, FACTS

DATATYPES = pa.schema([("id", pa.string()), ("datatype", pa.string())])

REDIRECTS = pa.schema([("source", pa.string()), ("target", pa.string())])

_MEMORY = "448MB"
"""DuckDB's memory to finish a bucket, on two cores; the rest spills to disk."""


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
        repetitions = find_repetitions(connection, read, broadcast.shared_ids)

        def finish(rows: BucketRows) -> list[_FinishedRows]:
            claims, entities = _complete(rows.claims, broadcast), rows.entities.select(ENTITIES.names)
            with open_cursor(connection) as own:  # a connection is not for several threads
                own.register("begun_item", broadcast.later_items)
                return [_finish(own, target, claims, entities) for target in targets]

        kept = chain.from_iterable(map(divided, repetitions.left_out_of(together(read(None)))))
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
