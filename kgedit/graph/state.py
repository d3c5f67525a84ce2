"""State of a home's graph: its server, its content, and whether its last import is finished.

Neo4j's import tool writes rows without indexes. Snapshots therefore keep the state IMPORTED until every constraint and
index is online, and the next command that needs the graph finishes an interrupted import. Earlier versions marked
snapshots complete immediately, so complete graphs are checked for indexes too. Reading the state starts no server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kgedit.errors import GraphError
from kgedit.graph.bolt import Address
from kgedit.graph.connection import Graph, external_address
from kgedit.graph.managed.processes import locked, say
from kgedit.graph.managed.server import ManagedServer, Status, disk_errors
from kgedit.graph.queries import schema_names, schema_statements
from kgedit.store.scope import Scope, scope_from


@dataclass(frozen=True, slots=True)
class GraphStatus:
    """The graph of a home.

    Attributes:
        server: The home's own server.
        outside: Address of the server named by `KGEDIT_GRAPH_URI`, which is used instead; None if it is not set.
        content: Content of the graph; None while its server is not running.
    """

    server: Status
    outside: str | None
    content: GraphSummary | None


def read_graph_status(home: Path) -> GraphStatus:
    """Read the state of a home's graph.

    Raises:
        GraphError: if a server that should answer does not.
    """
    server, outside = ManagedServer(home).status(), external_address()
    content = None
    if outside or server.running:
        with Graph.open(home, start=False) as graph:
            content = summarize(graph)
    return GraphStatus(server=server, outside=outside.uri if outside else None, content=content)


@dataclass(frozen=True, slots=True)
class GraphSummary:
    """Content of a graph.

    Attributes:
        scope: Part of the store in the graph, as text.
        snapshots: Number of current facts by day number; None while a snapshot is being written.
        terms: Number of nodes that are items, properties or values.
        facts: Number of FACT edges, of all snapshots.
        claims: Number of CLAIM edges, of all snapshots.
        missing_indexes: Constraints and indexes that are not online; empty for a graph without snapshots.
    """

    scope: str
    snapshots: dict[int, int | None]
    terms: int
    facts: int
    claims: int
    missing_indexes: list[str]


def graph_scope(graph: Graph) -> Scope:
    """The scope of a graph; everything if it contains no snapshot."""
    rows = graph.rows("MATCH (s:Snapshot) RETURN properties(s) AS properties ORDER BY s.date LIMIT 1")
    return scope_from(rows[0]["properties"]) if rows else Scope()


def summarize(graph: Graph) -> GraphSummary:
    """Summarize the content of a graph, in constant time."""
    snapshots = graph.rows(
        "MATCH (s:Snapshot) RETURN s.date AS date, CASE s.state WHEN 'complete' THEN s.facts END AS facts ORDER BY date"
    )
    counts = {
        name: graph.rows(f"MATCH {pattern} RETURN count(*) AS n")[0]["n"]
        for name, pattern in {"terms": "(:Term)", "facts": "()-[:FACT]->()", "claims": "()-[:CLAIM]->()"}.items()
    }
    return GraphSummary(
        scope=graph_scope(graph).describe(),
        snapshots={row["date"]: row["facts"] for row in snapshots},
        terms=counts["terms"],
        facts=counts["facts"],
        claims=counts["claims"],
        missing_indexes=missing_indexes(graph) if snapshots else [],
    )


_HTTP = """\
SHOW SETTINGS 'server.http.enabled', 'server.http.advertised_address' YIELD name, value
RETURN name, value
"""


def browser_of_home(home: Path) -> Callable[[], str | None]:
    """Return a function that returns Browser's current address, without starting a server.

    The managed server's address is read at each call, because it may be started later, on another port. An outside
    server is queried once, here.

    Args:
        home: Home folder.

    Returns:
        The function returns None while no server was started in the home, or if the outside server has no page.
    """
    outside = external_address()
    if outside is not None:
        page = with_browser(outside).browser_page()
        return lambda: page
    return lambda: _managed(home)


def with_browser(address: Address) -> Address:
    """Add the address of Browser's page to an address, if its server has one.

    Neo4j reports its HTTP port; a server that does not answer, or is not Neo4j, has no page.

    Args:
        address: Unchanged if it already has a page: KGEDIT_GRAPH_BROWSER comes first, because ports may be mapped.
    """
    if address.browser_url is not None:
        return address
    try:
        with Graph(address) as graph:
            settings = {row["name"]: str(row["value"]) for row in graph.rows(_HTTP, timeout=5)}
    except GraphError:
        return address
    port = settings.get("server.http.advertised_address", "").rpartition(":")[2]
    if settings.get("server.http.enabled") != "true" or not port.isdigit():
        return address
    host = urlsplit(address.uri).hostname or "localhost"
    return replace(address, browser_url=f"http://{f'[{host}]' if ':' in host else host}:{port}/browser/")


def _managed(home: Path) -> str | None:
    try:
        return ManagedServer(home).address().browser_page()
    except GraphError:
        return None


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
    graph.write_schema(schema_statements())
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
