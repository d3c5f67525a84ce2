"""Spark tasks that parse a dump: each turns a split of the file into chunks of rows by bucket."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgedit.errors import SourceError
from kgedit.spark.chunks import WHOLE_SNAPSHOT, chunk, chunks_by_bucket, to_bytes
from kgedit.store.blocks import limited
from kgedit.store.buckets import bucket_of
from kgedit.store.engine import select
from kgedit.store.framing import Framing
from kgedit.store.planning import NORMAL_ID
from kgedit.store.schemas import CLAIMS, ENTITIES, Loader, Parsed
from kgedit.store.sources import DumpFile
from kgedit.wikidata.ids import INSTANCE_OF, RESTRICTIVE_QUALIFIER

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
