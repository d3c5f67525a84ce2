"""Writes rows of Parquet files into the graph: over Bolt, or a whole graph as CSV files for the import tool.

A batch over Bolt and its record are one transaction: a node `Load` counts the written rows of a part, and a batch
whose first row is not the next one does nothing. The graph is therefore the same after an interruption, or if the
driver sends a batch twice because a response was lost.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import write_query
from kgedit.graph.state import import_mark
from kgedit.progress import current_advance
from kgedit.store.engine import literal
from kgedit.store.scope import Scope
from kgedit.store.timeline import CLAIM_COLUMNS, FACT_COLUMNS, REDIRECT_COLUMNS, TERM_COLUMNS, term_parts

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


SEPARATOR = "chr(31)"
"""SQL for the separator of list elements: ASCII's unit separator, which labels and ids never contain."""

_TYPES = {
    "id": "id:ID",
    "kind": ":LABEL",
    "subject": ":START_ID",
    "source": ":START_ID",
    "object": ":END_ID",
    "target": ":END_ID",
    "aliases": "aliases:string[]",
    "separators": "separators:string[]",
    "presence": "presence:long[]",
    "restricted": "restricted:boolean",
    "since": "since:long",
    "until": "until:long",
}

_LABELS = f"""
    concat_ws({SEPARATOR}, 'Term', CASE kind WHEN 'item' THEN 'Item' WHEN 'property' THEN 'Property'
              WHEN 'value' THEN 'Value' END,
              CASE WHEN id IN (SELECT source FROM whole_redirects) THEN 'Merged' END)
"""


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """Files for ManagedServer.bulk_import, and their numbers of rows.

    Attributes:
        nodes: Files by label, the header first.
        relationships: Files by type, the header first.
        rows: Number of rows by "Term" or relationship type.
    """

    nodes: Mapping[str, Sequence[Path]]
    relationships: Mapping[str, Sequence[Path]]
    rows: dict[str, int]


def write_csv_files(
    connection: duckdb.DuckDBPyConnection, folder: Path, scope: Scope, snapshots: Sequence[Mapping[str, Any]]
) -> CsvFiles:
    """Write a whole graph as CSV.

    Args:
        connection: Result of `open_timeline`.
        folder: Target folder; its content is deleted first.
        scope: Determines whether evidence is written.
        snapshots: Properties of the Snapshot nodes; the mark of an unfinished import is added.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    edges = {"FACT": ("whole_facts", FACT_COLUMNS), "REDIRECT": ("whole_redirects", REDIRECT_COLUMNS)}
    if scope.evidence:
        edges["CLAIM"] = ("whole_claims", CLAIM_COLUMNS)
    sorted_rows = folder / "sorted"
    sorted_rows.mkdir()
    rows = {"Term": _write(connection, folder, "whole_terms", TERM_COLUMNS, term_parts(connection, sorted_rows))}
    rows |= {kind: _write(connection, folder, view, columns) for kind, (view, columns) in edges.items()}
    listed = folder / "snapshots.csv"
    _write_snapshots(listed, [{**one, **import_mark(rows)} for one in snapshots])
    shutil.rmtree(sorted_rows)
    nodes = {"Term": _files(folder, "whole_terms"), "Snapshot": [listed]}
    # The tool does not accept an empty file.
    relationships = {kind: _files(folder, view) for kind, (view, _) in edges.items() if rows[kind]}
    return CsvFiles({label: files for label, files in nodes.items() if rows.get(label, 1)}, relationships, rows)


def _files(folder: Path, view: str) -> list[Path]:
    return [folder / f"{view}-header.csv", folder / f"{view}.csv"]


def _write(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    view: str,
    columns: Sequence[str],
    parts: Iterable[None] = (None,),
) -> int:
    """Write the rows of a view, which is read once for each of the parts that it is restricted to."""
    header, rows = _files(folder, view)
    typed = [_TYPES.get(name, f"{name}:long" if name.endswith("_precision") else name) for name in columns]
    header.write_text(",".join(typed) + "\n", encoding="utf-8")
    lists = {name: f"array_to_string({name}, {SEPARATOR}) AS {name}" for name in ("aliases", "presence", "separators")}
    picked = ", ".join({**lists, "kind": _LABELS}.get(name, name) for name in columns)
    aside, count = rows.with_suffix(".part"), 0
    with rows.open("wb") as whole:
        for _ in parts:
            copied = connection.execute(
                f"COPY (SELECT {picked} FROM {view}) TO {literal(aside)} (FORMAT csv, HEADER false)"
            )
            count += copied.fetchall()[0][0]
            with aside.open("rb") as part:
                shutil.copyfileobj(part, whole)
    aside.unlink()
    return count


def _write_snapshots(path: Path, snapshots: Sequence[Mapping[str, Any]]) -> None:
    types = {int: "long", bool: "boolean", str: "string", list: "string[]"}
    columns = {}
    for name in snapshots[0]:
        values = [one[name] for one in snapshots]
        joined = [chr(31).join(value) if isinstance(value, list) else value for value in values]
        columns[f"{name}:{types[type(values[0])]}"] = pa.array(joined)
    pacsv.write_csv(pa.table(columns), path)
