"""Builds the rows of a snapshot on a Spark cluster, with the parser and the bucket function of a local load.

A dump is parsed by split, shuffled by bucket, and written bucket by bucket to the snapshot's folder, which the driver
and all executors must see under the same path. The result has the same bytes as that of a local load.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.errors import StoreError
from kgedit.progress import Steps
from kgedit.spark.session import failures_explained, tasks_reported
from kgedit.spark.tasks import (
    CHUNK_SCHEMA,
    TEXT_COLUMNS,
    WHOLE_SNAPSHOT,
    FindTask,
    FinishTask,
    HashTask,
    ParseTask,
    ReadTask,
    from_bytes,
)
from kgedit.store.buckets import BucketTarget
from kgedit.store.builds import CheckCounts, Load, SnapshotPlan
from kgedit.store.engine import open_in_memory
from kgedit.store.framing import JSON_LINES, check_array
from kgedit.store.joining import Joined, joined_rows
from kgedit.store.planning import Target, WholeDump
from kgedit.store.schemas import CLAIMS, ENTITIES
from kgedit.store.sources import DumpFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


SPLIT_BYTES = 128 << 20
"""Compressed bytes of a dump that a task parses."""

_LINES_AT_ONCE, _BLOCKS_AT_ONCE, _CHUNKS_AT_ONCE = "1000", "4", "64"
"""Rows that Spark hands to Python at once: some tens of megabytes."""

_SPLITTABLE = ("uncompressed", "bzip2")


@dataclass(frozen=True, slots=True)
class SparkBuild:
    """Builds snapshots on a cluster, for `kgedit.store.ingest.ingest`.

    Attributes:
        session: Session on the cluster.
        split_bytes: Compressed bytes of a dump that a task parses.
        steps: Begins a step that is displayed; None displays nothing.
    """

    session: SparkSession
    split_bytes: int = SPLIT_BYTES
    steps: Steps | None = None

    def __call__(self, plan: SnapshotPlan, check: CheckCounts) -> tuple[Counter[str], list[Joined]]:
        """Build the files of one snapshot.

        Raises:
            SourceError: if the dump cannot be read.
            StoreError: if a task fails, or the files are not where the driver looks.
        """
        with failures_explained(plan.source.path):
            chunks = self._parse(plan).persist(_on_disk())
            try:
                return self._build(chunks, plan, check)
            finally:
                chunks.unpersist()

    def _parse(self, plan: SnapshotPlan) -> DataFrame:
        load, source = plan.load, plan.source
        splits = load.framing is JSON_LINES and load.limit is None and source.compression() in _SPLITTABLE
        parse = ParseTask(
            make_loader=load.make_loader, block_bytes=source.block_bytes if splits else None, buckets=plan.buckets
        )
        text = self._lines(source) if splits else self._blocks(load, source)
        self._set("spark.sql.execution.arrow.maxRecordsPerBatch", _LINES_AT_ONCE if splits else _BLOCKS_AT_ONCE)
        chunks = text.mapInArrow(parse, CHUNK_SCHEMA)
        if load.limit is None:
            one = self.session.range(0, 1, 1, 1)
            chunks = chunks.union(one.mapInArrow(HashTask(source.path.absolute()), CHUNK_SCHEMA))
        return chunks

    def _lines(self, source: DumpFile) -> DataFrame:
        """Lines of a dump with the position of their split; the order is kept within a split."""
        self._set("spark.sql.files.maxPartitionBytes", str(self.split_bytes))
        # Hadoop reads paths as patterns, and does not decode the "%20" of Path.as_uri().
        pattern = re.sub(r"([\[\]{}*?\\])", r"\\\1", str(source.path.absolute()))
        lines = self.session.read.text(f"file://{pattern}", lineSep="\n")
        return lines.selectExpr("_metadata.file_block_start AS number", "CAST(value AS binary) AS text")

    def _blocks(self, load: Load, source: DumpFile) -> DataFrame:
        """Blocks of a dump that one task reads, spread over the cluster."""
        read = ReadTask(
            path=source.path.absolute(), block_bytes=source.block_bytes, framing=load.framing, limit=load.limit
        )
        blocks = self.session.range(0, 1, 1, 1).mapInArrow(read, TEXT_COLUMNS)
        tasks = max(source.text_bytes // (16 * self.split_bytes), self.session.sparkContext.defaultParallelism)
        return blocks.repartition(int(tasks), "number")

    def _build(self, chunks: DataFrame, plan: SnapshotPlan, check: CheckCounts) -> tuple[Counter[str], list[Joined]]:
        (target,) = plan.targets
        with self._reporting(f"Parsing {plan.source.path.name} on Spark"):
            whole = chunks.where(f"bucket = {WHOLE_SNAPSHOT}").orderBy("kind", "block").collect()
        counts, blocks = _read_counts(whole, plan.source)
        check(counts)
        plan.source.sha256 = b"".join(_contents(whole, "sha256")).decode()
        with open_in_memory() as connection:
            dump = self._whole_dump(connection, chunks, whole, target)
            by_property = plan.load.datatypes_by_property
            broadcast = dump.broadcast([], datatypes_by_property=by_property, several_buckets=plan.buckets > 1)
            redirects, left_out = dump.redirects(target.redirects)
        folder = target.folder.absolute()
        finish = FinishTask(
            target=BucketTarget(folder=folder, date=target.date, redirects=redirects, buckets=plan.buckets),
            broadcast=broadcast,
            blocks=pa.array(blocks, pa.int64()),
        )
        with self._reporting("Finishing the buckets on Spark"):
            return counts, [joined_rows(self._finish(chunks, finish), left_out)]

    def _whole_dump(self, connection: Any, chunks: DataFrame, whole: Sequence[Row], target: Target) -> WholeDump:
        """The rows that the queries over a whole dump can find, of which a cluster need not send more."""
        claims, entities = (
            from_bytes(_contents(whole, kind), schema.append(pa.field("block", pa.int64())))
            for kind, schema in (("claims", CLAIMS), ("entities", ENTITIES))
        )
        same_ids = self._find(chunks, "claims", "statement_id", claims["statement_id"], claims.schema)
        sources = entities.filter(pc.is_valid(entities["redirect_target"]))["id"].combine_chunks()
        sought = pa.concat_arrays([
            sources, pa.array(list(target.redirects.targets), pa.string()), same_ids["subject"].combine_chunks()
        ])  # fmt: skip
        described = self._find(chunks, "entities", "id", sought, entities.schema)
        connection.register("found_claims", pa.concat_tables([claims, same_ids]))
        connection.register("found_entities", pa.concat_tables([entities, described]))
        connection.execute("CREATE TABLE parsed_claims AS SELECT DISTINCT * FROM found_claims")
        connection.execute("CREATE TABLE parsed_entities AS SELECT DISTINCT * FROM found_entities")
        return WholeDump(connection)

    def _find(self, chunks: DataFrame, kind: str, column: str, ids: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
        """Rows whose id is among some ids."""
        ids = pc.unique(ids)
        if not len(ids):
            return schema.empty_table()
        self._set("spark.sql.execution.arrow.maxRecordsPerBatch", _CHUNKS_AT_ONCE)
        found = chunks.where(f"bucket <> {WHOLE_SNAPSHOT} AND kind = '{kind}'")
        rows = found.mapInArrow(FindTask(column, ids, tuple(schema.names)), CHUNK_SCHEMA).collect()
        return from_bytes(_contents(rows, kind), schema)

    def _finish(self, chunks: DataFrame, finish: FinishTask) -> Counter[str]:
        self._set("spark.sql.execution.arrow.maxRecordsPerBatch", _CHUNKS_AT_ONCE)
        rows = chunks.where(f"bucket <> {WHOLE_SNAPSHOT}")
        by_bucket = rows.repartitionById(finish.target.buckets, "bucket").sortWithinPartitions(
            "bucket", "kind", "block"
        )
        finished = by_bucket.mapInArrow(finish, CHUNK_SCHEMA).collect()
        for left in finish.target.folder.glob(".?*-*"):
            shutil.rmtree(left, ignore_errors=True)  # of attempts that were killed
        counts: Counter[str] = Counter()
        for row in finished:
            found = json.loads(row["content"])
            _check_files(finish.target.folder, found["sizes"])
            counts.update(found["counts"])
        return counts

    def _reporting(self, title: str) -> AbstractContextManager[None]:
        if self.steps is None:
            return nullcontext()
        return tasks_reported(self.session, self.steps(title, 1000, "tasks"))

    def _set(self, name: str, value: str) -> None:
        self.session.conf.set(name, value)


def _on_disk() -> Any:
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY


def _contents(rows: Iterable[Row], kind: str) -> list[bytes]:
    return [bytes(row["content"]) for row in rows if row["kind"] == kind]


def _read_counts(whole: Sequence[Row], source: DumpFile) -> tuple[Counter[str], list[int]]:
    """Sums of the counts of all blocks, and the numbers of the blocks."""
    counts: Counter[str] = Counter()
    numbers, first, end = [], b"", b""
    for row in whole:
        if row["kind"] == "counts":
            found = json.loads(row["content"])
            counts.update(found["counts"])
            numbers.append(row["block"])
            begins, ends = (bytes.fromhex(text) for text in found["ends"])
            first, end = first or begins, ends or end
    check_array(first, end, source.path)
    return counts, numbers


def _check_files(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise StoreError(
                f"A task wrote {name} with {size:,} bytes, but {folder} does not have it. The home must be in a folder "
                "that the driver and all executors see under the same path, such as NFS."
            )
