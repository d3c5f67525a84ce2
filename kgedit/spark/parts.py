"""Runs a function for each of many parts on a Spark cluster; the parts are files in a folder that all machines see."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
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


@dataclass(frozen=True, slots=True)
class PartsTask:
    """Writes the parts whose numbers it gets."""

    write: Callable[[int], object]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a chunk for each part."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                self.write(number)
                yield chunk(number, "part", 0, json.dumps(number).encode())


def run_parts(
    session: SparkSession,
    write: Callable[[int], object],
    parts: int,
    *,
    folder: Path,
    missing: Callable[[], Collection[object]],
) -> None:
    """Write parts, one task for each.

    Args:
        session: Session on the cluster.
        write: Called with the number of a part, on an executor; it keeps a part that is there.
        parts: Number of parts.
        folder: Absolute path of the parts, for messages.
        missing: The parts that the driver does not find.

    Raises:
        StoreError: if a task fails, or the parts are not where the driver looks.
    """
    with failures_explained(folder):
        session.range(0, parts, 1, parts).mapInArrow(PartsTask(write), CHUNK_SCHEMA).count()
    if left := missing():
        raise StoreError(
            f"The tasks ended, but {len(left):,} parts are not in {folder}. The home must be in a folder that the "
            "driver and all executors see under the same path, such as NFS."
        )


def with_absolute_path(snapshot: Snapshot) -> Snapshot:
    """The snapshot as tasks find it, whose working directory is another."""
    return Snapshot(snapshot.folder.absolute(), snapshot.manifest)


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
        StoreError: as for `run_parts`.
    """
    folder, parts = delta_folder(home, newer).absolute(), delta_parts(older, newer)
    older, newer = with_absolute_path(older), with_absolute_path(newer)
    with open_in_memory() as connection:
        labels = property_labels(connection, (older, newer))

    def write(number: int) -> None:
        write_delta_parts(older, newer, scope, folder, [number], labels)

    run_parts(session, write, parts, folder=folder, missing=lambda: missing_parts(older, newer, scope, folder))
    return parts
