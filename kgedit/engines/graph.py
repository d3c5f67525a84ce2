"""The questions in Cypher: cypher/read/changed_edges and cypher/read/two_hop_changes."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from kgedit.engines.protocol import CHANGED_EDGES, TWO_HOPS
from kgedit.errors import BenchmarkError
from kgedit.graph.changes import changed_edges
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.store.window import Window
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST


class GraphEngine:
    """Asks the graph, and so sees the part of the snapshots that the graph's scope holds."""

    name: ClassVar[str] = "graph"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def check(self, window: Window) -> None:
        rows = self._graph.rows("MATCH (s:Snapshot) WHERE s.state = 'complete' RETURN s.date AS date ORDER BY date")
        loaded = {row["date"] for row in rows}
        for snapshot in (window.old, window.new):
            if snapshot.date not in loaded:
                raise BenchmarkError(
                    f"The graph lacks the snapshot of {snapshot.manifest['date']}. Give its load-dump command once "
                    "more, or export without the graph: --engine store"
                )

    def changed_edges(self, window: Window) -> pa.Table:
        found = changed_edges(self._graph, older=window.old.date, newer=window.new.date)
        return found.select(CHANGED_EDGES.names).cast(CHANGED_EDGES)

    def two_hops(self, window: Window) -> pa.Table:
        parameters = {"from": window.old.date, "to": window.new.date, "stop": list(TWO_HOP_STOP_LIST)}
        found = self._graph.table(read_query("two_hop_changes").text, parameters)
        return found.select(TWO_HOPS.names).cast(TWO_HOPS)
