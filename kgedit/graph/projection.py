"""The store's snapshots into the graph: the first by bulk import, later ones as deltas over Bolt.

The graph is a projection of the store and can always be rebuilt from it. Each batch of a delta is written in one
transaction together with the place where to go on, so that a killed load ends in the same graph.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import GraphError, StoreError
from kgedit.graph.connection import Graph, external_address
from kgedit.graph.locks import locked
from kgedit.graph.queries import schema_statements, write_query
from kgedit.graph.server import ManagedServer
from kgedit.store import versions
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.times import OPEN_END

STEPS = ("terms", "closed", "added")
BATCH_ROWS = 5_000

Progress = Callable[[int, int], None]
"""Called with the percentage done and the rows written."""


@dataclass(frozen=True, slots=True)
class Projected:
    """A snapshot that the graph now holds.

    Attributes:
        date: Its day number.
        claims: Versions that are open at its end.
        terms: Terms in the whole graph.
        imported: Snapshots that went in by bulk import, which builds the graph anew.
    """

    date: int
    claims: int
    terms: int
    imported: int


def bring_up_to_date(
    home: Path, snapshots: Sequence[Snapshot], *, progress: Progress, rebuild: bool = False
) -> Projected:
    """Write every snapshot that the graph lacks, in order of date.

    A managed graph that is empty, or whose snapshots are not the store's oldest ones, is built anew by bulk import;
    so it is with `rebuild`. Of several processes one writes, and the others wait for it.

    Raises:
        StoreError: if the store holds no snapshot.
        GraphError: if the database holds other data, or an outside server's graph does not fit the store.
    """
    if not snapshots:
        raise StoreError(f"No snapshot is loaded in {home}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
    with locked(home / "graph.lock"):
        todo = None if rebuild else _missing(home, snapshots)
        imported: Sequence[Snapshot] = ()
        if external_address() is None and (todo is None or len(todo) == len(snapshots)):
            # The first snapshot goes in by bulk import, and all of them where the graph is to be built anew.
            imported = snapshots if todo is None else snapshots[:1]
            _import(ManagedServer(home), home / "import", imported)
            todo = snapshots[len(imported) :]
        if todo is None:
            raise GraphError(
                "The graph at this address is not to be gone on with: its snapshots are not the store's oldest ones, "
                "and deltas are written in order of date. Empty the database (MATCH (n) DETACH DELETE n), load again."
            )
        with Graph.open(home) as graph:
            for statement in schema_statements():
                graph.write(statement)
            graph.write("CALL db.awaitIndexes(600)")
            for snapshot in todo:
                _write_delta(home, graph, [s for s in snapshots if s.date <= snapshot.date], progress)
            return _verify(graph, snapshots[-1], imported=len(imported))


def _missing(home: Path, snapshots: Sequence[Snapshot]) -> Sequence[Snapshot] | None:
    """Snapshots that are still to be written; None if the graph cannot be gone on with and must be built anew."""
    server = ManagedServer(home)
    if external_address() is None and server.import_unfinished():
        return None
    if external_address() is None and server.status().store_bytes == 0:
        return snapshots
    with Graph.open(home) as graph:
        graph.refuse_foreign_content()
        text = "MATCH (s:Snapshot) RETURN s.date AS date, s.sha256 AS sha256, s.state AS state ORDER BY date"
        found = [tuple(row.values()) for row in graph.rows(text)]
    wanted = [(snapshot.date, _sha256(snapshot)) for snapshot in snapshots]
    complete = [row[:2] for row in found if row[2] == "complete"]
    todo = snapshots[len(complete) :]
    interrupted = [row[:2] for row in found if row[2] != "complete"]
    fits = complete == wanted[: len(complete)] and interrupted in ([], wanted[len(complete) :][:1])
    return todo if fits else None


def _sha256(snapshot: Snapshot) -> str:
    # A load with --limit has no hash of its source.
    return snapshot.manifest["source"]["sha256"] or f"first {snapshot.manifest['limit']} lines"


_CSV_TYPES = {
    "id": "id:ID",
    "subject": ":START_ID",
    "object": ":END_ID",
    "presence": "presence:int[]",
    "separators": "separators:string[]",
    "restricted": "restricted:boolean",
}
_LISTS = ("presence", "separators")
_INTEGERS = ("redirected_at", "valid_from", "valid_to", "_precision", "_first", "_until")


def _header(columns: Sequence[str]) -> str:
    typed = (_CSV_TYPES.get(name, f"{name}:long" if name.endswith(_INTEGERS) else name) for name in columns)
    return ",".join(typed) + "\n"


def _import(server: ManagedServer, folder: Path, snapshots: Sequence[Snapshot]) -> None:
    """Build the managed server's database from these snapshots, by way of CSV files in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    connection = versions.connect(snapshots, spill=folder / "spill")
    files = {}
    for name, columns, order in (
        ("terms", versions.TERM_COLUMNS, "id"),
        ("versions", versions.CLAIM_COLUMNS, "version_id"),
    ):
        header, rows = folder / f"{name}-header.csv", folder / f"{name}.csv"
        header.write_text(_header(columns), encoding="utf-8")
        picked = ", ".join(f"array_to_string({c}, ';') AS {c}" if c in _LISTS else c for c in columns)
        connection.execute(
            f"COPY (SELECT {picked} FROM {name} ORDER BY {order}) TO '{rows}' (FORMAT csv, HEADER false)"
        )
        files[name] = [header, rows]
    connection.close()
    listed = folder / "snapshots.csv"
    lines = [f'{s.date},complete,"{s.manifest["source"]["name"]}","{_sha256(s)}"\n' for s in snapshots]
    listed.write_text("date:long,state,source,sha256\n" + "".join(lines), encoding="utf-8")
    server.bulk_import(nodes={"Term": files["terms"], "Snapshot": [listed]}, relationships={"CLAIM": files["versions"]})
    shutil.rmtree(folder)


def _write_delta(home: Path, graph: Graph, snapshots: Sequence[Snapshot], progress: Progress) -> None:
    """Write what the last of these snapshots changes, going on where an earlier attempt was."""
    snapshot = snapshots[-1]
    folder = home / "delta" / str(snapshot.date)
    folder.mkdir(parents=True, exist_ok=True)
    versions.write_delta(snapshots, folder)
    files = {step: pq.ParquetFile(folder / f"{step}.parquet") for step in STEPS}
    total = sum(file.metadata.num_rows for file in files.values())
    parameters = {"date": snapshot.date, "source": snapshot.manifest["source"]["name"], "sha256": _sha256(snapshot)}
    place = graph.write(write_query("begin_snapshot"), parameters)[0]
    done = 0
    for step, file in files.items():
        begun = STEPS.index(step) - STEPS.index(place["step"])
        written = place["written"] if begun == 0 else file.metadata.num_rows if begun < 0 else 0
        done += written
        for batch in _after(file, written):
            written, done = written + batch.num_rows, done + batch.num_rows
            rows = [claim_parameters(row) if step == "added" else row for row in batch.to_pylist()]
            graph.write(write_query(step), {"date": snapshot.date, "step": step, "written": written, "rows": rows})
            progress(100 * done // max(total, 1), done)
    graph.write(write_query("complete_snapshot"), {"date": snapshot.date})
    shutil.rmtree(folder)


def _after(file: pq.ParquetFile, written: int) -> Iterator[pa.RecordBatch]:
    """Batches of the rows that come after those already written."""
    for batch in file.iter_batches(BATCH_ROWS):
        skipped = min(written, batch.num_rows)
        written -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


def claim_parameters(row: dict[str, Any]) -> dict[str, Any]:
    """A row of an added version as cypher/write/added.cypher takes it."""
    return {"subject": row.pop("subject"), "object": row.pop("object"), "claim": row}


def _verify(graph: Graph, newest: Snapshot, *, imported: int) -> Projected:
    """Compare the newest snapshot's claims in the graph with its manifest.

    Raises:
        GraphError: if they differ.
    """
    count = "MATCH ()-[c:CLAIM]->() WHERE c.valid_to = $open RETURN count(c) AS claims"
    claims = graph.rows(count, {"open": OPEN_END})[0]["claims"]
    terms = graph.rows("MATCH (t:Term) RETURN count(t) AS terms")[0]["terms"]
    if claims != newest.manifest["claims_with_value"]:
        raise GraphError(
            f"The graph holds {claims:,} claims of {newest.manifest['date']}, its manifest "
            f"{newest.manifest['claims_with_value']:,}. Build it anew: kgedit graph rebuild"
        )
    return Projected(newest.date, claims, terms, imported)
