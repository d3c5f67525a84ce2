"""Files of tables that are read one at a time.

Each table is compressed as a whole. Arrow's own files compress each buffer of each column alone. For a few hundred
rows that takes twenty times as long to read and nine times as long to write, and a full dump has millions of such
tables. With `kgedit-native`, rows are in its form, which takes a third of the time of Arrow's messages.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from kgedit.errors import StoreError
from kgedit.store.compiled import find_compiled_frames

_LEVEL = 1
"""Arrow's level. A table is read once or twice."""

_ROWS_AT_ONCE = 65_536
"""Rows that are held twice while they are compressed."""

_ENTRY = struct.Struct("<4q")
"""Entry of a table, after the last table: its offset, its size compressed and uncompressed in bytes, and its rows."""

_END = struct.Struct("<2q")
"""Number of tables and form of their rows, at the end of the file."""

LAYOUT = 3
"""Increased when files of another layout are written, so that an unfinished load of an earlier version begins again."""

_ARROW, _PACKED = 0, 1
"""Forms of rows: messages of Arrow, or kgedit.store.compiled.CompiledFrames."""


def write_frames(path: Path, rows: pa.Table, order: NDArray[np.int64], ends: Sequence[int]) -> None:
    """Write rows as several tables.

    Args:
        path: The file.
        rows: The rows.
        order: Positions of the rows, those of the first table before those of the second one.
        ends: The end of each table in this order.
    """
    compiled = find_compiled_frames()
    compressor, entries = zstandard.ZstdCompressor(level=_LEVEL), []
    with path.open("wb") as file:
        if compiled:
            for content, (first, end) in zip(compiled.pack(rows, order, ends), pairwise([0, *ends]), strict=True):
                start = file.tell()
                file.write(compressor.compress(content))
                entries.append((start, file.tell() - start, len(content), end - first))
        else:
            ordered = rows.take(order)
            for first, end in pairwise([0, *ends]):
                start = file.tell()
                size = _write_messages(file, compressor, ordered.slice(first, end - first))
                entries.append((start, file.tell() - start, size, end - first))
        for entry in entries:
            file.write(_ENTRY.pack(*entry))
        file.write(_END.pack(len(entries), _PACKED if compiled else _ARROW))


def _write_messages(file: BinaryIO, compressor: zstandard.ZstdCompressor, table: pa.Table) -> int:
    size = 0
    with compressor.stream_writer(file, closefd=False) as frame:
        for first in range(0, table.num_rows, _ROWS_AT_ONCE):
            for batch in table.slice(first, _ROWS_AT_ONCE).combine_chunks().to_batches():
                message = batch.serialize()
                frame.write(message)
                size += message.size
    return size


def count_rows(path: Path) -> list[int]:
    """Number of rows of each table of a file."""
    with path.open("rb") as file:
        file.seek(-_END.size, os.SEEK_END)
        count, _ = _END.unpack(file.read())
        file.seek(-_END.size - _ENTRY.size * count, os.SEEK_END)
        return [rows for *_, rows in _ENTRY.iter_unpack(file.read(_ENTRY.size * count))]


@dataclass(frozen=True, slots=True)
class Frame:
    """A table as read from a file: its bytes, the number of its rows, and their form."""

    content: bytes
    rows: int
    form: int


class FrameReader:
    """Reads single tables of such files, in one thread. A bucket of a full dump reads some 7,000 small ones."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor()
        self._compiled = find_compiled_frames()

    def fetch(self, path: Path, number: int) -> Frame:
        """Read and decompress a table of a file, by its number from 0.

        Raises:
            StoreError: if `kgedit-native` wrote the file, but is not installed here.
        """
        file = os.open(path, os.O_RDONLY)
        try:
            end = os.fstat(file).st_size - _END.size
            count, form = _END.unpack(os.pread(file, _END.size, end))
            entry = os.pread(file, _ENTRY.size, end + _ENTRY.size * (number - count))
            start, compressed, size, rows = _ENTRY.unpack(entry)
            frame = os.pread(file, compressed, start)
        finally:
            os.close(file)
        if form == _PACKED and self._compiled is None:
            raise StoreError(f"{path} was written with kgedit-native. Install it here too: make native")
        return Frame(self._decompressor.decompress(frame, max_output_size=size), rows, form)

    def table(self, frames: Sequence[Frame], schema: pa.Schema, columns: Collection[str] | None = None) -> pa.Table:
        """The rows of some frames, in one table.

        Args:
            frames: The frames.
            schema: All their columns.
            columns: Names of the columns to read; None means all.
        """
        wanted = schema.names if columns is None else [name for name in schema.names if name in columns]
        packed = [(frame.content, frame.rows) for frame in frames if frame.form == _PACKED]
        if self._compiled is not None and len(packed) == len(frames):
            return self._compiled.unpack(packed, schema, wanted)
        tables = [
            self._compiled.unpack([(frame.content, frame.rows)], schema, wanted)
            if self._compiled is not None and frame.form == _PACKED
            else _read_messages(frame.content, schema).select(wanted)
            for frame in frames
        ]
        return pa.concat_tables(tables)

    def read(self, path: Path, number: int, schema: pa.Schema, columns: Collection[str] | None = None) -> pa.Table:
        """Read one table of a file: `fetch` and `table`."""
        return self.table([self.fetch(path, number)], schema, columns)


def _read_messages(content: bytes, schema: pa.Schema) -> pa.Table:
    reader, batches = pa.BufferReader(content), []
    while reader.tell() < len(content):
        batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(reader), schema))
    return pa.Table.from_batches(batches, schema)
