"""Spark tasks that parse a dump, finish buckets or write parts, and the rows that travel between them.

These rows are chunks: Arrow tables as bytes, with the bucket, the kind and the place of each. Converting a million
statements to Spark's own rows and back would take longer than parsing them. Spark sees a few binary values, sorts them
by bucket, and spills and compresses them like any others.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from kgedit.errors import SourceError, StoreError
from kgedit.machine import usable_cores
from kgedit.spark.session import failures_explained
from kgedit.store.blocks import limited
from kgedit.store.bucket_numbers import bucket_of
from kgedit.store.bucket_rows import BUCKET_CLAIMS, BUCKET_ENTITIES, BucketRows
from kgedit.store.buckets import Broadcast, BucketTarget, write_bucket
from kgedit.store.delta import delta_folder, delta_parts, missing_parts, write_delta_parts
from kgedit.store.engine import open_in_memory, select
from kgedit.store.framing import Framing
from kgedit.store.planning import NORMAL_ID
from kgedit.store.schemas import CLAIMS, ENTITIES, Loader, Parsed
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.sources import DumpFile
from kgedit.store.timeline import property_labels
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CHUNK_SCHEMA = "bucket int, kind string, block long, content binary"
"""Columns of a chunk in Spark's notation. ``bucket`` is -1 for what concerns the whole snapshot."""

WHOLE_SNAPSHOT = -1

_ARROW = pa.schema([("bucket", pa.int32()), ("kind", pa.string()), ("block", pa.int64()), ("content", pa.binary())])
_WRITING = pa.ipc.IpcWriteOptions(compression="zstd")


def chunk(bucket: int, kind: str, block: int, content: bytes) -> pa.RecordBatch:
    """One chunk as the batch that a Spark task returns."""
    return pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip((bucket, kind, block, content), _ARROW, strict=True)],
        schema=_ARROW,
    )


def chunks_by_bucket(kind: str, block: int, table: pa.Table, buckets: pa.Array) -> Iterator[pa.RecordBatch]:
    """The rows of a table as one chunk per bucket; rows keep their order.

    Args:
        kind: Kind of the rows.
        block: Place of the rows in the dump.
        table: The rows.
        buckets: Bucket of each row.
    """
    order = pc.sort_indices(buckets)  # a stable sort
    ordered = table.take(order).combine_chunks()
    found, starts = np.unique(buckets.take(order).to_numpy(zero_copy_only=False), return_index=True)
    ends = np.append(starts, table.num_rows)[1:].tolist()
    for bucket, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield chunk(bucket, kind, block, to_bytes(ordered.slice(start, end - start)))


def to_bytes(table: pa.Table) -> bytes:
    """A table in Arrow's stream format, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITING) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(contents: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """Tables in Arrow's stream format, one after another."""
    tables = [pa.ipc.open_stream(content).read_all() for content in contents]
    return pa.concat_tables([schema.empty_table(), *tables])


TEXT = pa.schema([("number", pa.int64()), ("text", pa.binary())])
"""Lines with the position of their split in the file, or blocks with their numbers."""

TEXT_COLUMNS = "number long, text binary"
"""The same in Spark's notation."""

_PLACE = pa.field("block", pa.int64())

_ROWS_AT_ONCE = 500_000
"""Claims and entities that a task gathers before it cuts them by bucket, about 250 MB."""

_EVERYWHERE = {
    "claims": f"NOT {NORMAL_ID} OR (property = '{INSTANCE_OF}' AND object = '{RESTRICTIVE_QUALIFIER}')",
    "entities": "datatype IS NOT NULL OR redirect_target IS NOT NULL",
}
"""Conditions for the few rows that concern other buckets than their own (kgedit.store.planning.WholeDump)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseTask:
    """Parses lines or blocks; picklable.

    Attributes:
        make_loader: Creates the loader.
        block_bytes: Size of the blocks that lines are gathered to; None if the texts are blocks already.
        buckets: Number of buckets.
    """

    make_loader: Callable[[], Loader]
    block_bytes: int | None
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield chunks of claims and entities by bucket, and of counts and rows that concern the whole snapshot."""
        loader = self.make_loader()
        gathered: list[tuple[int, Parsed]] = []
        blocks = _texts(batches) if self.block_bytes is None else blocks_of_lines(batches, self.block_bytes)
        for number, block in blocks:
            parsed = loader.parse(block)
            if parsed.waiting is not None:
                raise SourceError(
                    "This format describes values elsewhere in the dump, which Spark's tasks do not see. Load it "
                    "on one machine."
                )
            yield _counts(number, block, parsed)
            gathered.append((number, parsed))
            if sum(one.claims.num_rows + one.entities.num_rows for _, one in gathered) >= _ROWS_AT_ONCE:
                yield from self._chunks(gathered)
                gathered = []
        if gathered:
            yield from self._chunks(gathered)

    def _chunks(self, gathered: list[tuple[int, Parsed]]) -> Iterator[pa.RecordBatch]:
        first = gathered[0][0]
        for kind, schema, ids in (("claims", CLAIMS, "subject"), ("entities", ENTITIES, "id")):
            tables = [schema.append(_PLACE).empty_table()]
            for number, parsed in gathered:
                table = getattr(parsed, kind)
                tables.append(table.append_column(_PLACE, pa.array(np.full(table.num_rows, number))))
            rows = pa.concat_tables(tables)
            yield from chunks_by_bucket(kind, first, rows, bucket_of(rows[ids], self.buckets))
            everywhere = select(f"FROM rows WHERE {_EVERYWHERE[kind]}", rows=rows).cast(rows.schema)
            if everywhere.num_rows:
                yield chunk(WHOLE_SNAPSHOT, kind, first, to_bytes(everywhere))


def blocks_of_lines(batches: Iterator[pa.RecordBatch], block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of about `block_bytes`, with numbers that increase in the order of the file.

    The n-th block of a split has the number of the split's first byte plus n. A split has more bytes than blocks, so
    that the numbers of two splits never meet.
    """
    split, number, size = -1, -1, 0
    lines: list[bytes] = []
    for start, line in _texts(batches):
        if start != split or size >= block_bytes:
            if lines:
                yield number, b"\n".join(lines)
            number = start if start != split else number + 1
            split, size, lines = start, 0, []
        lines.append(line)
        size += len(line)
    if lines:
        yield number, b"\n".join(lines)


def _texts(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _counts(number: int, block: bytes, parsed: Parsed) -> pa.RecordBatch:
    """Counts of a block; and the characters at its ends, by which a truncated array is recognised."""
    text = block.strip()
    counts = parsed.counts + Counter(entities=parsed.entities.num_rows)
    content = {"counts": counts, "ends": [text[:64].hex(), text[-64:].hex()]}
    return chunk(WHOLE_SNAPSHOT, "counts", number, json.dumps(content).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Reads a dump that cannot be split, as numbered blocks; picklable.

    Attributes:
        path: The dump, which the executor of the task must see under this path.
        block_bytes: Size of the blocks.
        framing: Cuts the blocks.
        limit: Maximum number of lines; None means all.
    """

    path: Path
    block_bytes: int
    framing: Framing
    limit: int | None

    def __call__(self, _batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one block at a time."""
        source = DumpFile(self.path, self.block_bytes)
        for number, block in enumerate(limited(source.blocks(self.framing), self.framing, self.limit)):
            columns = [pa.array([number], pa.int64()), pa.array([bytes(block)], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=TEXT)


@dataclass(frozen=True, slots=True)
class HashTask:
    """Computes the SHA-256 of a dump, while other tasks parse it; picklable."""

    path: Path

    def __call__(self, _batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one chunk."""
        with self.path.open("rb") as file:
            yield chunk(WHOLE_SNAPSHOT, "sha256", 0, hashlib.file_digest(file, "sha256").hexdigest().encode())


_SCHEMAS = {"claims": BUCKET_CLAIMS, "entities": BUCKET_ENTITIES}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTask:
    """Finishes the buckets whose chunks it gets, sorted by bucket, kind and block; picklable.

    Attributes:
        target: The snapshot, as the target of any bucket; `redirects` has those of all buckets.
        broadcast: Tables of the whole dump.
        blocks: Numbers of all blocks, sorted. A position in this list fits into the column of a bucket's rows.
    """

    target: BucketTarget
    broadcast: Broadcast
    blocks: pa.Array

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the counts of each bucket, and the names and sizes of its files."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, chunks in groupby(rows, lambda row: row["bucket"]):
            contents: dict[str, list[bytes]] = {"claims": [], "entities": []}
            for each in chunks:
                contents[each["kind"]].append(each["content"])
            yield self._finish(number, BucketRows(*(self._rows(kind, contents[kind]) for kind in contents)))

    def _rows(self, kind: str, contents: list[bytes]) -> pa.Table:
        schema = _SCHEMAS[kind]
        rows = from_bytes(contents, schema.set(schema.get_field_index("block"), pa.field("block", pa.int64())))
        places = pc.index_in(rows["block"], value_set=self.blocks).combine_chunks()
        rows = rows.set_column(schema.get_field_index("block"), "block", places).cast(schema)
        # A task parses blocks from several parts of the dump, so that chunks overlap.
        order = np.argsort(places.to_numpy(), kind="stable")
        return rows if bool((np.diff(order) > 0).all()) else rows.take(pa.array(order))

    def _finish(self, number: int, rows: BucketRows) -> pa.RecordBatch:
        whole = self.target
        aside = whole.folder / f".{number:05d}-{uuid.uuid4().hex}"
        aside.mkdir()
        try:
            mine = pc.equal(bucket_of(whole.redirects["source"], whole.buckets), number)
            target = replace(whole, folder=aside, number=number, redirects=whole.redirects.filter(mine))
            with tempfile.TemporaryDirectory(prefix="kgedit-spill-") as spill:
                # As many tasks as cores run on a machine, each with its share of the memory.
                share = usable_cores()
                (counts,) = write_bucket(
                    lambda _columns: [rows], [target], self.broadcast, spill=Path(spill) / "spill", share=share
                )
            sizes = {path.name: path.stat().st_size for path in sorted(aside.iterdir())}
            for name in sizes:
                # Another attempt at the same bucket writes the same bytes under the same names.
                (aside / name).replace(whole.folder / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return chunk(number, "counts", 0, json.dumps({"counts": counts, "sizes": sizes}).encode())


@dataclass(frozen=True, slots=True)
class FindTask:
    """Finds the rows whose id is among some ids; picklable.

    Attributes:
        column: Column of the id.
        ids: The ids.
        columns: Columns of the result.
    """

    column: str
    ids: pa.Array
    columns: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a chunk for each chunk with such rows."""
        for batch in batches:
            for row in batch.to_pylist():
                table = pa.ipc.open_stream(row["content"]).read_all()
                found = table.filter(pc.is_in(table[self.column], value_set=self.ids)).select(list(self.columns))
                if found.num_rows:
                    yield chunk(WHOLE_SNAPSHOT, row["kind"], row["block"], to_bytes(found))


@dataclass(frozen=True, slots=True)
class PartsTask:
    """Writes the parts whose numbers it gets."""

    write: Callable[[int], object]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a chunk for each part."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                self.write(number)
                yield chunk(number, "part", 0, json.dumps(number).encode())


def run_parts(
    session: SparkSession,
    write: Callable[[int], object],
    parts: int,
    *,
    folder: Path,
    missing: Callable[[], Collection[object]],
) -> None:
    """Write parts, one task for each.

    Args:
        session: Session on the cluster.
        write: Called with the number of a part, on an executor; it keeps a part that is there.
        parts: Number of parts.
        folder: Absolute path of the parts, for messages.
        missing: The parts that the driver does not find.

    Raises:
        StoreError: if a task fails, or the parts are not where the driver looks.
    """
    with failures_explained(folder):
        session.range(0, parts, 1, parts).mapInArrow(PartsTask(write), CHUNK_SCHEMA).count()
    if left := missing():
        raise StoreError(
            f"The tasks ended, but {len(left):,} parts are not in {folder}. The home must be in a folder that the "
            "driver and all executors see under the same path, such as NFS."
        )


def with_absolute_path(snapshot: Snapshot) -> Snapshot:
    """The snapshot as tasks find it, whose working directory is another."""
    return Snapshot(snapshot.folder.absolute(), snapshot.manifest)


def write_delta_on_spark(session: SparkSession, home: Path, older: Snapshot, newer: Snapshot, scope: Scope) -> int:
    """Write all parts of a delta; those that are there are kept.

    Args:
        session: Session on the cluster.
        home: Home folder, which the driver and all executors see under the same path.
        older: The older snapshot.
        newer: The next one.
        scope: Scope of the graph.

    Returns:
        Number of parts.

    Raises:
        StoreError: as for `run_parts`.
    """
    folder, parts = delta_folder(home, newer).absolute(), delta_parts(older, newer)
    older, newer = with_absolute_path(older), with_absolute_path(newer)
    with open_in_memory() as connection:
        labels = property_labels(connection, (older, newer))

    def write(number: int) -> None:
        write_delta_parts(older, newer, scope, folder, [number], labels)

    run_parts(session, write, parts, folder=folder, missing=lambda: missing_parts(older, newer, scope, folder))
    return parts
