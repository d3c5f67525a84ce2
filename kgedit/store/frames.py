"""Files of tables that are read one at a time, each compressed as a whole.

Arrow's own files compress each buffer of each column alone. For a few hundred rows that takes twenty times as long to
read and nine times as long to write, and a run of a full dump has 4,096 such tables.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import zstandard

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


def read_frame(path: Path, number: int, schema: pa.Schema) -> pa.Table:
    """Read one table of a file, by its number from 0."""
    with path.open("rb") as file:
        file.seek(-_COUNT.size, os.SEEK_END)
        (count,) = _COUNT.unpack(file.read(_COUNT.size))
        file.seek(_ENTRY.size * (number - count) - _COUNT.size, os.SEEK_END)
        start, compressed, size = _ENTRY.unpack(file.read(_ENTRY.size))
        file.seek(start)
        content = zstandard.ZstdDecompressor().decompress(file.read(compressed), max_output_size=size)
    reader, batches = pa.BufferReader(content), []
    while reader.tell() < size:
        batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema))
    return pa.Table.from_batches(batches, schema)
