"""Gathers the rows of part files by bucket.

Parts are read once, in runs of consecutive blocks. A run is written with one frame per bucket, so that a bucket reads
its own rows only, in the dump's order. A dump with one bucket needs no runs.

Each table of a run is compressed as a whole. Arrow's own files compress each buffer of each column alone. For a few
hundred rows that takes twenty times as long to read and nine times as long to write, and a run of a full dump has 4,096
such tables.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from kgedit.files import put_in_place
from kgedit.store.buckets import BLOCK, BUCKET_CLAIMS, BUCKET_ENTITIES, BucketRows, divide

_LEVEL = 1
"""Arrow's level. A run is read once."""

_ROWS_AT_ONCE = 65_536
"""Rows that are held twice while they are compressed."""

_ENTRY = struct.Struct("<3q")
"""Of each table, after the last one: where it begins, its bytes compressed, and its bytes."""

_COUNT = struct.Struct("<q")
"""Number of tables, at the end of the file."""


def write_frames(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    entries = []
    with path.open("wb") as file:
        for table in tables:
            start, size = file.tell(), 0
            with compressor.stream_writer(file, closefd=False) as frame:
                for first in range(0, table.num_rows, _ROWS_AT_ONCE):
                    for batch in table.slice(first, _ROWS_AT_ONCE).combine_chunks().to_batches():
                        message = batch.serialize()
                        frame.write(message)
                        size += message.size
            entries.append((start, file.tell() - start, size))
        for entry in entries:
            file.write(_ENTRY.pack(*entry))
        file.write(_COUNT.pack(len(entries)))


class FrameReader:
    """Reads single tables of such files, in one thread. A bucket of a full dump reads some 7,000 small ones."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor()

    def read(self, path: Path, number: int, schema: pa.Schema) -> pa.Table:
        """Read one table of a file, by its number from 0."""
        file = os.open(path, os.O_RDONLY)
        try:
            end = os.fstat(file).st_size - _COUNT.size
            (count,) = _COUNT.unpack(os.pread(file, _COUNT.size, end))
            entry = os.pread(file, _ENTRY.size, end + _ENTRY.size * (number - count))
            start, compressed, size = _ENTRY.unpack(entry)
            frame = os.pread(file, compressed, start)
        finally:
            os.close(file)
        content = self._decompressor.decompress(frame, max_output_size=size)
        reader, batches = pa.BufferReader(content), []
        while reader.tell() < size:
            batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema))
        return pa.Table.from_batches(batches, schema)


_ROWS_PER_RUN = 1_000_000
"""Maximum number of claims and entities of a run, which takes 240 MB; a full dump has some 1,700 runs."""

_ROWS_PER_FRAME = 45_000
"""Number of rows that a bucket has in a run of a small dump: finishing holds one frame at a time, about 15 MB."""

_SCHEMAS = {"claims": BUCKET_CLAIMS, "entities": BUCKET_ENTITIES}


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows of a dump by bucket.

    Attributes:
        parts: Folder of the part files.
        blocks: Number of blocks.
        runs: Folders of the runs; empty for one bucket, which reads the parts.
        buckets: Number of buckets.
    """

    parts: Path
    blocks: int
    runs: tuple[Path, ...]
    buckets: int

    def rows(self, number: int, columns: Mapping[str, Sequence[str]] | None = None) -> Iterator[BucketRows]:
        """Yield the rows of a bucket by block or by run (kgedit.store.buckets.ReadRows)."""
        if self.buckets == 1:
            for block in range(self.blocks):
                yield BucketRows(
                    *(_read(self.parts, name, [block], columns[name] if columns else None) for name in _SCHEMAS)
                )
        frames = FrameReader()
        for run in self.runs:
            yield BucketRows(
                *(frames.read(run / f"{name}.frames", number, schema) for name, schema in _SCHEMAS.items())
            )


def gather(parts: Path, blocks: int, folder: Path, *, buckets: int, workers: int = 1) -> Gathered:
    """Gather the rows of all blocks by bucket. Runs of an earlier attempt are kept.

    Args:
        parts: Folder of the part files.
        blocks: Number of blocks.
        folder: Folder of the runs.
        buckets: Number of buckets.
        workers: Number of runs that are written at once, in threads.
    """
    if buckets == 1:
        return Gathered(parts, blocks, (), 1)
    folder.mkdir(exist_ok=True)
    most = min(_ROWS_PER_RUN, _ROWS_PER_FRAME * buckets)
    with ThreadPoolExecutor(workers) as pool:
        runs = pool.map(lambda numbers: _gather_run(parts, numbers, folder, buckets), _runs(parts, blocks, most))
        return Gathered(parts, blocks, tuple(runs), buckets)


def _runs(parts: Path, blocks: int, most: int) -> Iterator[range]:
    """Yield the block numbers of each run: `most` rows at most, unless a single block has more."""
    start = rows = 0
    for number in range(blocks):
        more = sum(pq.read_metadata(path).num_rows for name in _SCHEMAS for path in _files(parts, name, number))
        if rows and rows + more > most:
            yield range(start, number)
            start, rows = number, 0
        rows += more
    if start < blocks:
        yield range(start, blocks)


def _gather_run(parts: Path, numbers: range, folder: Path, buckets: int) -> Path:
    run = folder / f"{numbers.start:06d}-{numbers.stop:06d}-in-{buckets}"
    if run.is_dir():
        return run
    aside = folder / f".{run.name}"
    aside.mkdir(exist_ok=True)
    for name in _SCHEMAS:
        pieces: list[list[pa.Table]] = [[] for _ in range(buckets)]
        for number in numbers:
            by_bucket = divide(_read(parts, name, [number]), "subject" if name == "claims" else "id", buckets)
            for piece, rows in zip(pieces, by_bucket, strict=True):
                piece.append(rows)
        write_frames(aside / f"{name}.frames", map(pa.concat_tables, pieces))
    put_in_place(aside, run)
    return run


def _files(parts: Path, name: str, number: int) -> list[Path]:
    """Part files of a block; claims that waited for their values follow the others."""
    names = (name, "late") if name == "claims" else (name,)
    return [path for each in names if (path := parts / f"{each}-{number:06d}.parquet").is_file()]


def _read(parts: Path, name: str, numbers: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of some blocks, with the number of their block; of the columns, None means all."""
    schema = _SCHEMAS[name]
    if columns is not None:
        schema = pa.schema([schema.field(column) for column in columns])
    stored = pa.schema([field for field in schema if field.name != BLOCK.name])
    tables = [schema.empty_table()]
    for number in numbers:
        for path in _files(parts, name, number):
            table = pq.ParquetFile(path).read(stored.names).cast(stored)
            tables.append(table.append_column(BLOCK, pa.array(np.full(table.num_rows, number, np.int32))))
    return pa.concat_tables(tables)
