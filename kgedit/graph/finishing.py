"""Last step of an import: constraints, indexes and the completion mark, including for earlier imports without them.

Neo4j's import tool writes rows without indexes. Snapshots therefore keep the state IMPORTED until every constraint and
index is online, and the next command that needs the graph finishes an interrupted import. Earlier versions marked
snapshots complete immediately, so complete graphs are checked for indexes too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.managed.disk import disk_errors
from kgedit.graph.managed.processes import locked, say
from kgedit.graph.queries import schema_names, schema_statements

IMPORTED = "imported"
"""State of a snapshot whose rows are in the graph, without indexes."""

_USABLE = (IMPORTED, "delta", "complete")
"""States in which a graph needs its indexes; in other states a load is writing rows or emptying the graph."""


def import_mark(rows: Mapping[str, int]) -> dict[str, Any]:
    """Properties of an imported snapshot's node until `finish_graph` replaces them.

    Args:
        rows: Number of rows given to the import tool, by "Term" or relationship type.
    """
    return {"state": IMPORTED, "imported": json.dumps(rows)}


@contextmanager
def open_finished(home: Path) -> Iterator[Graph]:
    """Connect to the graph of a home for reading, and finish it first if an import was interrupted.

    Raises:
        GraphError: if the graph cannot be reached or finished.
    """
    with Graph.open(home) as graph:
        if not _is_finished(graph):
            with disk_errors(home), locked(home / "graph.lock"):
                finish_graph(graph)
        yield graph


def finish_graph(graph: Graph) -> None:
    """Create missing constraints and indexes, and mark imported snapshots complete. Idempotent.

    The caller holds the graph's lock.

    Raises:
        GraphError: if the graph does not contain the imported rows, or an index cannot be built.
    """
    if _is_finished(graph):
        return
    imported = _imported(graph)
    if imported is None:
        missing = ", ".join(missing_indexes(graph))
        say(
            f"The graph lacks indexes ({missing}): a load was interrupted, or an earlier version of kgedit built it. "
            "Building them ..."
        )
    try:
        build_indexes(graph)
        _check_rows(graph, imported or {})
    except GraphError as error:
        raise GraphError(f"{error}\nThe graph cannot be finished. Write it again: kgedit graph rebuild") from error
    graph.write("MATCH (s:Snapshot {state: $imported}) SET s.state = 'complete' REMOVE s.imported",
                {"imported": IMPORTED})  # fmt: skip


def build_indexes(graph: Graph) -> None:
    """Create missing constraints and indexes, and wait until all are online."""
    states = _index_states(graph)
    for name, kind in schema_names().items():
        if states.get(name) == "FAILED":
            graph.write(f"DROP {kind} {name} IF EXISTS")
    for statement in schema_statements():
        graph.write(statement)
    graph.write("CALL db.awaitIndexes(36000)")


def missing_indexes(graph: Graph) -> list[str]:
    """Names of the constraints and indexes that are not online."""
    states = _index_states(graph)
    return [name for name in schema_names() if states.get(name) != "ONLINE"]


def _index_states(graph: Graph) -> dict[str, str]:
    # The index of a constraint has the same name.
    try:
        return {row["name"]: row["state"] for row in graph.rows("SHOW INDEXES YIELD name, state")}
    except GraphError as error:
        if "Security.Forbidden" in str(error):  # a reader of an outside server, who could not build them either
            return dict.fromkeys(schema_names(), "ONLINE")
        raise


def _is_finished(graph: Graph) -> bool:
    states = {row["state"] for row in graph.rows("MATCH (s:Snapshot) RETURN DISTINCT s.state AS state")}
    if not states or not states <= set(_USABLE):
        return True  # nothing to finish: the graph is empty, or a load is still writing
    return IMPORTED not in states and not missing_indexes(graph)


def _imported(graph: Graph) -> dict[str, int] | None:
    """Numbers of rows given to an unfinished import; None without one."""
    rows = graph.rows("MATCH (s:Snapshot {state: $state}) RETURN s.imported AS rows LIMIT 1", {"state": IMPORTED})
    return json.loads(rows[0]["rows"]) if rows else None


def _check_rows(graph: Graph, rows: Mapping[str, int]) -> None:
    """Compare the numbers of rows given to the import tool with the graph's stored counts, in constant time.

    Raises:
        GraphError: if they differ.
    """
    for name, count in rows.items():
        pattern = "(:Term)" if name == "Term" else f"()-[:{name}]->()"
        found = graph.rows(f"MATCH {pattern} RETURN count(*) AS n")[0]["n"]
        if found != count:
            raise GraphError(f"The graph contains {found:,} {name} records, and {count:,} were given to the import.")
