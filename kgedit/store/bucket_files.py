"""Files of a snapshot's buckets: their names, and row groups of exact sizes.

With exact row groups the same rows give the same bytes, however they arrive.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq


def bucket_file(table: str, number: int, buckets: int) -> str:
    """Name of a bucket's file of claims, facts or entities; a snapshot with one bucket has plain names.

    >>> bucket_file("facts", 0, 1), bucket_file("facts", 3, 64)
    ('facts.parquet', 'facts-00003.parquet')
    """
    return f"{table}.parquet" if buckets == 1 else f"{table}-{number:05d}.parquet"


def bucket_pattern(table: str) -> str:
    """Pattern of the names of a table's files in a snapshot with several buckets, for DuckDB.

    >>> bucket_pattern("facts")
    'facts-*.parquet'
    """
    return f"{table}-*.parquet"


ROW_GROUP_ROWS = 122_880
"""DuckDB's own size: it reads a row group with one thread."""


_WITHOUT_DICTIONARY = {
    "statement_id": "DELTA_BYTE_ARRAY",
    "version": "PLAIN",
    "digest": "PLAIN",
    "place": "DELTA_BINARY_PACKED",
    "statement_place": "DELTA_BINARY_PACKED",
}
"""Encodings of columns whose values are all different, for which a dictionary adds two bytes a row. Neighbouring
statement ids begin with the same id of a subject, which this encoding stores once, and places are neighbours."""


class RowGroups:
    """Writes a file whose row groups have exactly ROW_GROUP_ROWS rows, except the last one; a context manager."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        encodings = {name: how for name, how in _WITHOUT_DICTIONARY.items() if name in schema.names}
        paths = (f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name for field in schema)
        self._file = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=[name for name in paths if name not in encodings],
            column_encoding=encodings,
        )
        self._rest = schema.empty_table()

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        self._rest = pa.concat_tables([self._rest, table.cast(self._rest.schema)])
        while self._rest.num_rows >= ROW_GROUP_ROWS:
            # In one chunk, because the writer starts a new dictionary page with each chunk.
            self._file.write_table(self._rest.slice(0, ROW_GROUP_ROWS).combine_chunks(), ROW_GROUP_ROWS)
            self._rest = self._rest.slice(ROW_GROUP_ROWS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._rest.num_rows:
            self._file.write_table(self._rest.combine_chunks(), ROW_GROUP_ROWS)
        self._file.close()
