"""Spark tasks that finish buckets, and that find rows of other buckets by their ids."""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.machine import usable_cores
from kgedit.spark.chunks import WHOLE_SNAPSHOT, chunk, from_bytes, to_bytes
from kgedit.store.buckets import (
    BUCKET_CLAIMS,
    BUCKET_ENTITIES,
    Broadcast,
    BucketRows,
    BucketTarget,
    bucket_of,
    write_bucket,
)

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
