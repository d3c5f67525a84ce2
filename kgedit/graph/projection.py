"""Writes the store's snapshots into the graph: as a whole, or the newest ones as deltas.

The graph is a projection of the store and can always be rebuilt from it. A whole graph is written to a managed server
with Neo4j's import tool, and to an outside one over Bolt; deltas are written over Bolt to both. An interrupted load
resumes with the same command.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from kgedit.errors import GraphError, StoreError
from kgedit.graph.connection import Graph, external_address
from kgedit.graph.managed.processes import locked
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.queries import schema_statements
from kgedit.graph.state import build_indexes, finish_graph
from kgedit.graph.writing import forget_progress, write_csv_files, write_steps
from kgedit.store.delta import delta_folder, write_delta, write_whole
from kgedit.store.disk import disk_errors
from kgedit.store.scope import Scope, keep_scope, kept_scope, scope_from, scope_properties
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import open_timeline
from kgedit.wikidata.times import OPEN_END


@dataclass(frozen=True, slots=True)
class GraphContent:
    """Content of the graph after a load.

    Attributes:
        date: Day number of its newest snapshot.
        facts: Number of facts that are current in it.
        terms: Number of terms in the whole graph.
        rebuilt: Number of snapshots that were rewritten as a whole; 0 if deltas were enough.
        scope: Part of the store that is in the graph.
    """

    date: int
    facts: int
    terms: int
    rebuilt: int
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Found:
    """A snapshot recorded in the graph.

    Attributes:
        load: Hash of what it was loaded from and with; None in graphs of earlier versions.
    """

    date: int
    sha256: str
    load: str | None
    state: str  # complete; or the work in progress: imported, delta, whole, emptying
    facts: int | None
    scope: Scope


def bring_up_to_date(
    home: Path,
    snapshots: Sequence[Snapshot],
    *,
    rebuild: bool = False,
    scope: Scope | None = None,
) -> GraphContent:
    """Write every snapshot that the graph lacks, in order of date.

    A managed graph is written as a whole if it is empty, if its snapshots are not the store's oldest ones, if its scope
    follows the changes, or with `rebuild`. If several processes call this, one writes and the others
    wait for it. Advances (kgedit.progress) as rows are written over Bolt, in percent and rows.

    Args:
        home: Home folder.
        snapshots: All snapshots of the store, oldest first.
        rebuild: Whether to rewrite the whole graph.
        scope: Part of the store that goes into it; None means that of the graph, or everything for a new graph.

    Raises:
        StoreError: if the store contains no snapshot.
        GraphError: if the database contains other data, an outside server's graph does not fit the store, or the graph
            has another scope and is not rebuilt.
    """
    if not snapshots:
        raise StoreError(f"No snapshot is loaded in {home}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
    with disk_errors(home), locked(home / "graph.lock"):
        found = _found(home, finish=not rebuild)
        chosen = _choose_scope(home, scope, found or [], rebuild=rebuild)
        todo = _missing(found, snapshots)
        if found and external_address() and todo is None and not (rebuild or _is_unfinished(found)):
            raise GraphError(
                "The graph at this address does not fit the store: its snapshots are not the store's oldest ones, and "
                "deltas are written in order of date. Rebuild it: kgedit graph rebuild"
            )
        keep_scope(home, chosen)
        if rebuild or todo is None or len(todo) == len(snapshots) or (todo and chosen.follows_changes):
            _write_whole(home, snapshots, chosen, found)
            return _held(home, snapshots, chosen, rebuilt=len(snapshots))
        if todo:
            with Graph.open(home) as graph:
                for older, newer in pairwise([snapshots[-len(todo) - 1], *todo]):
                    _write_delta(home, graph, (snapshots[0], older, newer), chosen)
        # Leftovers of an interrupted load that this one did not need.
        shutil.rmtree(home / "import", ignore_errors=True)
        return _held(home, snapshots, chosen, rebuilt=0)


def _held(home: Path, snapshots: Sequence[Snapshot], scope: Scope, *, rebuilt: int) -> GraphContent:
    newest = snapshots[-1].date
    with Graph.open(home) as graph:
        terms = graph.rows("MATCH (t:Term) RETURN count(t) AS terms")[0]["terms"]
        facts = graph.rows("MATCH (s:Snapshot {date: $date}) RETURN s.facts AS facts", {"date": newest})[0]["facts"]
    return GraphContent(newest, facts, terms, rebuilt, scope)


def empty_graph(home: Path) -> None:
    """Remove all content of the graph.

    Raises:
        GraphError: if the database contains other data.
    """
    with disk_errors(home), locked(home / "graph.lock"):
        if external_address() is None and ManagedServer(home).status().store_bytes == 0:
            return
        with Graph.open(home) as graph:
            graph.refuse_foreign_content()
            graph.clear()


def _found(home: Path, *, finish: bool) -> list[_Found] | None:
    """Snapshots recorded in the graph, oldest first; None if it must be rebuilt.

    Args:
        home: Home folder.
        finish: Whether to finish an import first that was interrupted before its indexes were built.
    """
    server = ManagedServer(home)
    if external_address() is None and server.import_unfinished():
        return None
    if external_address() is None and server.status().store_bytes == 0:
        return []
    with Graph.open(home) as graph:
        graph.refuse_foreign_content()
        if finish:
            finish_graph(graph)
        rows = graph.rows("MATCH (s:Snapshot) RETURN properties(s) AS properties ORDER BY s.date")
        if not rows and graph.rows("MATCH (t:Term) RETURN count(t) AS n")[0]["n"]:
            return None
    return [_found_in(row["properties"]) for row in rows]


def _found_in(properties: Mapping[str, Any]) -> _Found:
    """A snapshot by the properties of its node."""
    return _Found(
        properties["date"],
        properties["sha256"],
        properties.get("load"),
        properties["state"],
        properties.get("facts"),
        scope_from(properties),
    )


def _choose_scope(home: Path, asked: Scope | None, found: Sequence[_Found], *, rebuild: bool) -> Scope:
    """Choose the scope to write: the requested one, else the graph's, else the one stored in the home.

    Raises:
        GraphError: if the graph's scope differs from the requested one.
    """
    own = found[0].scope if found else None
    if asked is not None and own is not None and asked != own and not rebuild:
        raise GraphError(
            f"The graph contains {own.describe()}; this asks for {asked.describe()}. "
            "Leave the options out to keep the graph, or rebuild it with them: kgedit graph rebuild"
        )
    return asked or own or kept_scope(home) or Scope()


def _is_unfinished(found: Sequence[_Found]) -> bool:
    return any(one.state in ("whole", "emptying") for one in found)


def _missing(found: Sequence[_Found] | None, snapshots: Sequence[Snapshot]) -> Sequence[Snapshot] | None:
    """The newest snapshots that the graph lacks; None if its snapshots are not the store's oldest ones."""
    if found is None or _is_unfinished(found):
        return None
    complete = [one for one in found if one.state == "complete"]
    begun = [one for one in found if one.state == "delta"]
    missing = snapshots[len(complete) :]
    fits = len(complete) <= len(snapshots) and len(begun) <= min(1, len(missing))
    fits = fits and all(map(_is_of, [*complete, *begun], snapshots))
    return missing if fits else None


def _is_of(found: _Found, snapshot: Snapshot) -> bool:
    """Whether the graph has this snapshot, of the same dump and options."""
    return found.date == snapshot.date and (
        found.load == _load(snapshot) if found.load else found.sha256 == _sha256(snapshot)
    )


def _load(snapshot: Snapshot) -> str:
    """Hash of what a snapshot was loaded from and with."""
    recorded = snapshot.manifest
    parts = ("loader", "limit", "redirects", "projected", "slice_of", "part")
    what = {name: recorded.get(name) for name in parts} | {"source": recorded["source"]["sha256"]}
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _sha256(snapshot: Snapshot) -> str:
    # A load with --limit does not record a hash of its source.
    return snapshot.manifest["source"]["sha256"] or f"first {snapshot.manifest['limit']} lines"


def _described(snapshot: Snapshot, scope: Scope, state: str) -> dict[str, Any]:
    """Properties of a snapshot's node."""
    return {
        "date": snapshot.date,
        "state": state,
        "source": snapshot.manifest["source"]["name"],
        "sha256": _sha256(snapshot),
        "load": _load(snapshot),
        **scope_properties(scope),
    }


def _write_whole(home: Path, snapshots: Sequence[Snapshot], scope: Scope, found: Sequence[_Found] | None) -> None:
    folder = home / "import"
    if external_address() is None:
        described = [_described(snapshot, scope, "complete") for snapshot in snapshots]
        with open_timeline(snapshots, scope, spill=folder / "spill") as connection:
            files = write_csv_files(connection, folder / "csv", scope, _with_counts(connection, described))
        ManagedServer(home).bulk_import(files.nodes, files.relationships)
        shutil.rmtree(folder)
        with Graph.open(home) as graph:
            finish_graph(graph)
        return
    with Graph.open(home) as graph:
        _write_whole_over_bolt(graph, folder, snapshots, scope, found)
    shutil.rmtree(folder)


def _with_counts(connection: duckdb.DuckDBPyConnection, described: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the numbers of current facts in scope and of items to the description of each snapshot."""
    counts = {"facts": "SELECT count(*) FROM fact_{0}", "items": "SELECT count(*) FROM entity_{0} WHERE kind = 'item'"}
    for k, one in enumerate(described):
        for name, count in counts.items():
            one[name] = connection.execute(count.format(k)).fetchall()[0][0]
    return described


def _write_whole_over_bolt(
    graph: Graph,
    folder: Path,
    snapshots: Sequence[Snapshot],
    scope: Scope,
    found: Sequence[_Found] | None,
) -> None:
    begun = [one for one in found or () if one.state == "whole" and one.scope == scope]
    if not len(begun) == len(found or ()) == len(snapshots) or not all(map(_is_of, begun, snapshots)):
        graph.clear()
        graph.write_schema(schema_statements("1_"))
        described = [_described(snapshot, scope, "whole") for snapshot in snapshots]
        graph.write("UNWIND $described AS one CREATE (s:Snapshot) SET s = one", {"described": described})
    folder.mkdir(parents=True, exist_ok=True)
    with open_timeline(snapshots, scope, spill=folder / "spill") as connection:
        counted = _with_counts(connection, [{"date": snapshot.date} for snapshot in snapshots])
    write_steps(graph, write_whole(snapshots, scope, folder), {})
    # Indexes after the rows: building them in one step is faster than updating them.
    build_indexes(graph)
    graph.write(
        "UNWIND $counted AS one MATCH (s:Snapshot {date: one.date}) SET s += one, s.state = 'complete'",
        {"counted": counted},
    )
    forget_progress(graph)


def _write_delta(home: Path, graph: Graph, snapshots: tuple[Snapshot, Snapshot, Snapshot], scope: Scope) -> None:
    """Write the changes of a snapshot, resuming where an earlier attempt stopped.

    Args:
        home: Home folder.
        graph: Graph to write.
        snapshots: The graph's oldest snapshot, the one before the new one, and the new one.
        scope: Scope of the graph.
    """
    first, older, newer = snapshots
    folder = delta_folder(home, newer)
    folder.mkdir(parents=True, exist_ok=True)
    files = write_delta(older, newer, scope, folder)
    graph.write(
        "MERGE (s:Snapshot {date: $date}) ON CREATE SET s = $described",
        {"date": newer.date, "described": _described(newer, scope, "delta")},
    )
    constants = {"date": newer.date, "month": newer.name[:7], "first": first.date, "open": OPEN_END}
    write_steps(graph, files, constants)
    with open_timeline([newer], scope, spill=folder / "spill") as connection:
        counted = _with_counts(connection, [{"date": newer.date}])[0]
    graph.write(
        "MATCH (s:Snapshot {date: $counted.date}) SET s += $counted, s.state = 'complete'", {"counted": counted}
    )
    forget_progress(graph)
    shutil.rmtree(folder)
