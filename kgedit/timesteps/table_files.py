"""Tables of a timestep as files that are written and read in batches, so that no table has to fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.checksums import decoding, sha256_of

ROWS_IN_GROUP = 16_384
"""Rows that are held before they are written: 30 MB of cases. Readers skip groups by the range of their ids."""


class TableFile:
    """A Parquet file that grows by batches of rows; a context manager.

    Its bytes do not depend on the sizes of the batches.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
        self._waiting = schema.empty_table()
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Append rows; further columns than those of the schema are left out."""
        self._waiting = pa.concat_tables([self._waiting, rows.select(self._schema.names).cast(self._schema)])
        while self._waiting.num_rows >= ROWS_IN_GROUP:
            self._write(self._waiting.slice(0, ROWS_IN_GROUP))
            self._waiting = self._waiting.slice(ROWS_IN_GROUP)

    def finish(self) -> dict[str, Any]:
        """Write what is left and close the file; returns its entry in the manifest."""
        if self._waiting.num_rows or not self._rows:
            self._write(self._waiting)
        self._waiting = self._schema.empty_table()
        self._writer.close()
        return {"rows": self._rows, "sha256": sha256_of(self._path)}

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()

    def _write(self, rows: pa.Table) -> None:
        # The limits of pages depend on chunks, and these on the batches.
        self._writer.write_table(rows.combine_chunks(), row_group_size=ROWS_IN_GROUP)
        self._rows += rows.num_rows


def write_table(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> dict[str, Any]:
    """Write a table from its parts, in order; returns its entry in the manifest."""
    with TableFile(path, schema) as file:
        for part in parts:
            file.add(part)
        return file.finish()


Rows = list[dict[str, Any]]


def read_parts(path: Path, schema: pa.Schema, *, fix: str) -> Iterator[Rows]:
    """Yield the rows of a file, in order, in lists of at most _ROWS_AT_ONCE.

    Args:
        path: The file.
        schema: Its schema; columns that an earlier version of kgedit did not write are None.
        fix: What to do if it is damaged, as a sentence for the message.

    Raises:
        DamagedFileError: if it cannot be decoded.
    """
    # A scan of a data set would read on until a gigabyte waits, whatever its limits.
    with decoding(path, fix=fix):
        file = pq.ParquetFile(path)
    with file:
        stored = [name for name in schema.names if name in file.schema_arrow.names]
        missing = dict.fromkeys(set(schema.names).difference(stored))
        batches = file.iter_batches(_ROWS_AT_ONCE, columns=stored)
        while True:
            with decoding(path, fix=fix):
                batch = next(batches, None)
            if batch is None:
                return
            yield [missing | row for row in batch.to_pylist()]


_ROWS_AT_ONCE = 2_000
"""Rows that are read at once; as Python objects, a case takes some kilobytes with its probes."""
