"""Writes the parts of a delta on a Spark cluster, one task for each bucket, with the function of a local delta."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.spark.chunks import CHUNK_SCHEMA, chunk
from kgedit.spark.session import failures_explained
from kgedit.store.delta import delta_folder, delta_parts, missing_parts, write_delta_parts
from kgedit.store.engine import open_in_memory
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import property_labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTask:
    """Writes the parts whose numbers it gets; picklable. Arguments are those of `write_delta_parts`."""

    older: Snapshot
    newer: Snapshot
    scope: Scope
    folder: Path
    labels: pa.Table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a chunk for each part."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                write_delta_parts(self.older, self.newer, self.scope, self.folder, [number], self.labels)
                yield chunk(number, "delta", 0, json.dumps(number).encode())


def write_delta_on_spark(session: SparkSession, home: Path, older: Snapshot, newer: Snapshot, scope: Scope) -> int:
    """Write all parts of a delta; those that are there are kept.

    Args:
        session: Session on the cluster.
        home: Home folder, which the driver and all executors see under the same path.
        older: The older snapshot.
        newer: The next one.
        scope: Scope of the graph.

    Returns:
        Number of parts.

    Raises:
        StoreError: if a task fails, or the parts are not where the driver looks.
    """
    folder, parts = delta_folder(home, newer).absolute(), delta_parts(older, newer)
    with open_in_memory() as connection:
        labels = property_labels(connection, (older, newer))
    absolute = [Snapshot(snapshot.folder.absolute(), snapshot.manifest) for snapshot in (older, newer)]
    task = DeltaTask(older=absolute[0], newer=absolute[1], scope=scope, folder=folder, labels=labels)
    with failures_explained(folder):
        session.range(0, parts, 1, parts).mapInArrow(task, CHUNK_SCHEMA).count()
    if missing := missing_parts(older, newer, scope, folder):
        raise StoreError(
            f"The tasks ended, but {len(missing):,} parts are not in {folder}. The home must be in a folder that the "
            "driver and all executors see under the same path, such as NFS."
        )
    return parts
