"""Files of tables that are read one at a time.

Each table is compressed as a whole. Arrow's own files compress each buffer of each column alone. For a few hundred
rows that takes twenty times as long to read and nine times as long to write, and a full dump has millions of such
tables.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import zstandard

_LEVEL = 1
"""Arrow's level. A table is read once or twice."""

_ROWS_AT_ONCE = 65_536
"""Rows that are held twice while they are compressed."""

_ENTRY = struct.Struct("<4q")
"""Entry of a table, after the last table: its offset, its size compressed and uncompressed in bytes, and its rows."""

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
            entries.append((start, file.tell() - start, size, table.num_rows))
        for entry in entries:
            file.write(_ENTRY.pack(*entry))
        file.write(_COUNT.pack(len(entries)))


def count_rows(path: Path) -> list[int]:
    """Number of rows of each table of a file."""
    with path.open("rb") as file:
        file.seek(-_COUNT.size, os.SEEK_END)
        (count,) = _COUNT.unpack(file.read())
        file.seek(-_COUNT.size - _ENTRY.size * count, os.SEEK_END)
        return [rows for *_, rows in _ENTRY.iter_unpack(file.read(_ENTRY.size * count))]


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
            start, compressed, size, _ = _ENTRY.unpack(entry)
            frame = os.pread(file, compressed, start)
        finally:
            os.close(file)
        content = self._decompressor.decompress(frame, max_output_size=size)
        reader, batches = pa.BufferReader(content), []
        while reader.tell() < size:
            batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema))
        return pa.Table.from_batches(batches, schema)
