"""Writes a whole graph as CSV files for Neo4j's import tool."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv

from kgedit.graph.finishing import import_mark
from kgedit.store.engine import literal
from kgedit.store.scope import Scope
from kgedit.store.timeline import CLAIM_COLUMNS, FACT_COLUMNS, REDIRECT_COLUMNS, TERM_COLUMNS, term_parts

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
