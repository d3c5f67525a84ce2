"""Summary of a graph, from numbers that the server keeps."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.graph.connection import Graph
from kgedit.graph.finishing import missing_indexes
from kgedit.graph.scopes import scope_from
from kgedit.store.scope import Scope


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
