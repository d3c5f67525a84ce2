"""Rows that travel between Spark's stages: Arrow tables as bytes, with the bucket, the kind and the place of each.

Converting a million statements to Spark's own rows and back would take longer than parsing them. Spark sees a few
binary values, sorts them by bucket, and spills and compresses them like any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

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
