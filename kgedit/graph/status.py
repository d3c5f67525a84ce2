"""State of a home's graph server and content of its graph. Starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kgedit.graph.connection import Graph, external_address
from kgedit.graph.managed.server import ManagedServer, Status
from kgedit.graph.summary import GraphSummary, summarize


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
