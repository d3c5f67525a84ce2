"""State of a home's graph server, content of its graph, and the address of Neo4j Browser. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from kgedit.errors import GraphError
from kgedit.graph.bolt import Address
from kgedit.graph.connection import Graph, external_address
from kgedit.graph.finishing import missing_indexes
from kgedit.graph.managed.server import ManagedServer, Status
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
