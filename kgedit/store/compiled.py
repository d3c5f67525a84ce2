"""Uses the compiled parser of JSON dumps (``native/``) if it is installed, its hashes of rows, and its form of rows.

The parser reads lines of the usual form. Other lines are parsed by the loader in Python, so that the rules for odd data
exist once, and rows and counts do not depend on the parser.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.store.schemas import CLAIMS, ENTITIES, LoaderOptions, Parsed

_MOST_ODD_LINES = 200
"""A block with more odd lines is parsed in Python, because each becomes a separate table."""


class CompiledParser:
    """Parses blocks of lines without Python's lock.

    Args:
        parser: `kgedit_native.Parser`.
        parse_odd: Parses a block of lines in Python.
    """

    def __init__(self, parser: Any, parse_odd: Callable[[bytes], Parsed]) -> None:
        self._parser = parser
        self._parse_odd = parse_odd

    def parse(self, block: bytes) -> Parsed:
        """Parse a block of whole lines."""
        found = self._parser.parse(block)
        if found is None or len(found[3]) > _MOST_ODD_LINES:
            return self._parse_odd(block)
        claims, entities = _table(found[0], CLAIMS), _table(found[1], ENTITIES)
        parsed = Parsed(claims, entities, Counter({reason: count for reason, count in found[2] if count}))
        if not found[3]:
            return parsed
        odd = [self._parse_odd(block[start:end]) for start, end, _, _ in found[3]]
        if _have_common_entities([parsed, *odd]):
            return self._parse_odd(block)  # which of them comes first, and is kept, is for Python to find out
        return Parsed(
            _interleaved(claims, [place[2] for place in found[3]], [one.claims for one in odd]),
            _interleaved(entities, [place[3] for place in found[3]], [one.entities for one in odd]),
            sum((one.counts for one in odd), parsed.counts),
        )


def find_compiled_parser(
    options: LoaderOptions, rules: str, parse_odd: Callable[[bytes], Parsed]
) -> CompiledParser | None:
    """Parser of the package ``kgedit-native``; None if it is not installed or follows the rules of another version.

    Args:
        options: What to read of each entity.
        rules: Version of the loader, whose rows it must give.
        parse_odd: Parses a block of lines in Python.
    """
    try:
        import kgedit_native
    except ImportError:
        return None
    if rules != kgedit_native.RULES:
        logging.getLogger(__name__).warning(
            "The compiled parser is of another version and is not used. Build it again: make native"
        )
        return None
    return CompiledParser(kgedit_native.Parser(list(options.languages), options.wiki), parse_odd)


def find_compiled_hashes() -> Callable[[Sequence[pa.Array], str], NDArray[np.uint8]] | None:
    """Function of some columns that returns the MD5 of each row, written as a text.

    Its second argument is the text of null. Columns of strings, lists of strings, int64 and bool are possible. U+001F
    separates them, and U+001D the strings of a list. The result has one row of 16 bytes for each.

    None if ``kgedit-native`` is not installed or was built before it had the function.
    """
    md5_of_rows = _find("md5_of_rows")

    def hashes(columns: Sequence[pa.Array], null: str) -> NDArray[np.uint8]:
        rows = len(columns[0])
        if not rows:
            return np.zeros((0, 16), np.uint8)  # an empty column may have no buffers
        found = md5_of_rows([_described(column) for column in columns], rows, null)
        return np.frombuffer(found, np.uint8).reshape(rows, 16)

    return hashes if md5_of_rows else None


def find_compiled_order() -> Callable[[pa.Array, int, int, int], tuple[NDArray[np.int64], list[int]]] | None:
    """Compiled form of `kgedit.store.bucket_numbers.order_by_bucket`; None if ``kgedit-native`` does not have it."""
    order_by_bucket = _find("order_by_bucket")

    def ordered(ids: pa.Array, buckets: int, start: int, step: int) -> tuple[NDArray[np.int64], list[int]]:
        order, ends = order_by_bucket(_described(ids), len(ids), (buckets, start, step))
        return np.frombuffer(order, np.int64), ends

    return ordered if order_by_bucket else None


def _find(name: str) -> Any:
    try:
        import kgedit_native
    except ImportError:
        return None
    return getattr(kgedit_native, name, None)


@dataclass(frozen=True, slots=True)
class CompiledFrames:
    """Rows as bytes, by ``kgedit-native``. Columns of strings, lists of strings and numbers are possible.

    Attributes:
        pack_rows: `kgedit_native.pack_rows`.
        unpack_rows: `kgedit_native.unpack_rows`.
    """

    pack_rows: Callable[..., list[Any]]
    unpack_rows: Callable[..., Any]

    def pack(self, rows: pa.Table, order: NDArray[np.int64], ends: Sequence[int]) -> list[memoryview]:
        """The rows in an order, as one text for each range of it. A range begins at the end of the one before."""
        if not len(order):
            return [memoryview(b"")] * len(ends)  # an empty column may have no buffers
        columns = [_described(column.combine_chunks()) for column in rows.columns]
        packed = self.pack_rows(columns, np.ascontiguousarray(order, np.int64).view(np.int8), list(ends))
        return [memoryview(content) for content in packed]

    def unpack(self, contents: Sequence[tuple[bytes, int]], schema: pa.Schema, wanted: Collection[str]) -> pa.Table:
        """Wanted columns of packed tables, one after another.

        Args:
            contents: Texts of `pack`, each with the number of its rows.
            schema: All their columns.
            wanted: Names of columns to read.
        """
        columns = [(_kind(field.type), field.name in wanted) for field in schema]
        read = pa.schema([field for field in schema if field.name in wanted])
        return _table(self.unpack_rows(contents, columns), read)


def find_compiled_frames() -> CompiledFrames | None:
    """Form of rows of ``kgedit-native``; None if it is not installed or was built before it had the functions."""
    pack_rows, unpack_rows = _find("pack_rows"), _find("unpack_rows")
    return CompiledFrames(pack_rows, unpack_rows) if pack_rows and unpack_rows else None


def _kind(of: pa.DataType) -> str:
    return "list" if pa.types.is_list(of) else str(of)


def _described(column: pa.Array) -> tuple[str, int, Any, list[pa.Buffer]]:
    valid, *buffers = column.buffers()
    kind = _kind(column.type)
    if kind == "list":
        del buffers[1]  # validity of the strings, none of which is null
    return kind, column.offset, valid, [pa.py_buffer(b"") if buffer is None else buffer for buffer in buffers]


def _table(found: tuple[int, list[list[bytes | None]]], schema: pa.Schema) -> pa.Table:
    rows, columns = found
    arrays = [_array(field.type, rows, buffers) for field, buffers in zip(schema, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, rows: int, in_bytes: list[bytes | None]) -> pa.Array:
    buffers = [None if data is None else pa.py_buffer(data) for data in in_bytes]
    if not pa.types.is_list(kind):
        return pa.Array.from_buffers(kind, rows, buffers)
    items = int.from_bytes(memoryview(in_bytes[1] or b"")[-4:], "little")  # the last offset
    values = pa.Array.from_buffers(kind.value_type, items, buffers[2:])
    return pa.Array.from_buffers(kind, rows, buffers[:2], children=[values])


def _have_common_entities(parsed: list[Parsed]) -> bool:
    ids = [entity for one in parsed for entity in one.entities["id"].to_pylist()]
    return len(set(ids)) < len(ids)


def _interleaved(rows: pa.Table, places: list[int], inserted: list[pa.Table]) -> pa.Table:
    """Insert a table before each of the given rows, in ascending order."""
    pieces: Iterator[Any] = (
        piece
        for (start, end), table in zip(pairwise([0, *places]), inserted, strict=True)
        for piece in (rows.slice(start, end - start), table)
    )
    return pa.concat_tables([*pieces, rows.slice(places[-1])]).combine_chunks()
