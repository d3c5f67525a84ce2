"""Writes rows from Parquet files into the graph over Bolt: batches in parallel, each applied exactly once.

A batch and its record are one transaction: a node `Load` counts the written rows of a part, and a batch whose first row
is not the next one does nothing. The graph is therefore the same after an interruption, or if the driver sends a batch
twice because a response was lost.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import write_query
from kgedit.progress import current_advance

BATCH_ROWS = 10_000
PARTS = 3
"""Number of sessions that write concurrently."""

_ROWS_OF_ONE_PART = 10_000
"""Fewer rows do not justify several sessions."""


def write_steps(graph: Graph, files: Mapping[str, Path], constants: Mapping[str, Any]) -> None:
    """Write the rows of each step, in order, resuming where an earlier attempt stopped.

    Advances after every batch, with the percentage done and the number of rows written.

    Args:
        graph: Graph to write.
        files: Parquet file by step, always with the same rows in the same order. A step is a file of cypher/write.
        constants: Parameters of every batch.

    Raises:
        GraphError: if rows do not match anything in the graph, whose content then differs from the store.
    """
    rows = {step: pq.read_metadata(path).num_rows for step, path in files.items()}
    count = _Count(sum(rows.values()))
    for step, path in files.items():
        parts = PARTS if rows[step] > _ROWS_OF_ONE_PART else 1
        bounds = [rows[step] * part // parts for part in range(parts + 1)]
        with ThreadPoolExecutor(parts) as pool:
            running = [
                pool.submit(_write_part, graph, step, path, (start, stop), constants, count)
                for start, stop in pairwise(bounds)
                if start < stop
            ]
            for part in running:
                part.result()


def forget_progress(graph: Graph) -> None:
    """Delete the progress records of a completed load."""
    graph.write("MATCH (l:Load) DELETE l")


class _Count:
    """Number of rows written by all parts."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._written = 0
        self._advance = current_advance()  # the batches are written by other threads
        self._lock = threading.Lock()

    def add(self, rows: int) -> None:
        with self._lock:
            self._written += rows
            self._advance(100 * self._written // max(self._total, 1), self._written)


def _write_part(
    graph: Graph, step: str, path: Path, bounds: tuple[int, int], constants: Mapping[str, Any], count: _Count
) -> None:
    start, stop = bounds
    load = f"{step} {start}-{stop}"
    note = "MERGE (l:Load {id: $load}) ON CREATE SET l.written = 0 RETURN l.written AS written"
    written = graph.write(note, {"load": load})[0]["written"]
    count.add(written)
    text = write_query(step)
    for batch in _batches(path, start + written, stop):
        place = {"load": load, "before": written, "after": written + batch.num_rows}
        if not graph.write_batch(text, {**constants, **place, "rows": batch.to_pylist()}):
            raise GraphError(
                f"The graph does not match the snapshot store: rows of the step '{step}' find nothing there to change. "
                "Build it again: kgedit graph rebuild"
            )
        written += batch.num_rows
        count.add(batch.num_rows)


def _batches(path: Path, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Read the rows [start, stop) of a file; row groups outside are not read."""
    file = pq.ParquetFile(path)
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    chosen = [n for n, (size, end) in enumerate(zip(sizes, ends, strict=True)) if end > start and end - size < stop]
    place = ends[chosen[0]] - sizes[chosen[0]] if chosen else 0
    for batch in file.iter_batches(BATCH_ROWS, row_groups=chosen):
        first, last = max(start - place, 0), min(stop - place, batch.num_rows)
        place += batch.num_rows
        if first < last:
            yield batch.slice(first, last - first)
