"""The questions in Cypher: cypher/read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from kgedit.engines.protocol import (
    CHANGED_EDGES,
    FUNCTIONAL_BY_CONSTRAINT,
    FUNCTIONAL_BY_DATA,
    SIMILAR,
    STATIC,
    TWO_HOPS,
    SimilarSubjects,
)
from kgedit.engines.store import StoreEngine
from kgedit.errors import TimestepError
from kgedit.graph.changes import changed_edges
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.graph.summary import graph_scope
from kgedit.store.scope import Scope
from kgedit.store.window import Window
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

_EDITS_AT_ONCE = 1_000
"""A batch shares the look-up of common facts; its candidates fit in the memory that Neo4j gives one query."""


class GraphEngine:
    """Asks the graph.

    A graph that holds a part of the snapshots (kgedit.store.scope) answers what changed within its scope. What is asked
    of all facts, changed or not, is then asked of the snapshots: how functional relations are, and similar subjects.
    """

    name: ClassVar[str] = "graph"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        scope = graph_scope(graph)
        self._whole = replace(scope, evidence=True) == Scope()
        self._evidence = self._whole and scope.evidence
        self._store = StoreEngine()

    def check(self, window: Window) -> None:
        rows = self._graph.rows("MATCH (s:Snapshot) WHERE s.state = 'complete' RETURN s.date AS date ORDER BY date")
        loaded = {row["date"] for row in rows}
        for snapshot in (window.old, window.new):
            if snapshot.date not in loaded:
                raise TimestepError(
                    f"The graph lacks the snapshot of {snapshot.manifest['date']}. Give its load-dump command once "
                    "more, or export without the graph: --engine store"
                )

    def changed_edges(self, window: Window) -> pa.Table:
        found = changed_edges(self._graph, older=window.old.date, newer=window.new.date)
        return found.select(CHANGED_EDGES.names).cast(CHANGED_EDGES)

    def two_hops(self, window: Window) -> pa.Table:
        return self._ask("two_hop_changes", _days(window) | {"stop": list(TWO_HOP_STOP_LIST)}, TWO_HOPS)

    def functional_by_data(self, window: Window, properties: pa.Table, *, min_subjects: int) -> pa.Table:
        if not self._whole:
            return self._store.functional_by_data(window, properties, min_subjects=min_subjects)
        asked = {"date": window.new.date, "properties": _distinct(properties), "min_subjects": min_subjects}
        return self._ask("functional_by_data", asked, FUNCTIONAL_BY_DATA)

    def functional_by_constraint(self, window: Window) -> pa.Table:
        if not self._evidence:
            return self._store.functional_by_constraint(window)
        older, newer = (
            self._ask("functional_by_constraint", {"date": snapshot.date}, FUNCTIONAL_BY_CONSTRAINT)
            for snapshot in (window.old, window.new)
        )
        return window.select(
            "SELECT * FROM newer UNION ALL SELECT * FROM older WHERE property NOT IN (SELECT id FROM new_entities) "
            'ORDER BY property, "constraint", separators',
            older=older,
            newer=newer,
        ).cast(FUNCTIONAL_BY_CONSTRAINT)

    def similar_subjects(self, window: Window, edits: pa.Table, *, max_df: int, k: int, pool: int) -> SimilarSubjects:
        if not self._whole:
            return self._store.similar_subjects(window, edits, max_df=max_df, k=k, pool=pool)
        edits = edits.select(["case_id", "subject", "property"]).sort_by(
            [("property", "ascending"), ("case_id", "ascending")]
        )
        batches = [edits.slice(start, _EDITS_AT_ONCE) for start in range(0, edits.num_rows, _EDITS_AT_ONCE)]
        asked = _days(window) | {"max_df": max_df, "k": k}
        found = [self._ask("similar_facts", asked | {"edits": batch.to_pylist()}, SIMILAR) for batch in batches]
        static = self._ask("static_facts", _days(window) | {"properties": _distinct(edits), "limit": pool}, STATIC)
        return SimilarSubjects(pa.concat_tables([SIMILAR.empty_table(), *found]), static)

    def _ask(self, query: str, parameters: dict[str, Any], schema: pa.Schema) -> pa.Table:
        return self._graph.table(read_query(query).text, parameters).select(schema.names).cast(schema)


def _days(window: Window) -> dict[str, Any]:
    return {"from": window.old.date, "to": window.new.date}


def _distinct(table: pa.Table) -> list[str]:
    return sorted(table["property"].unique().to_pylist())
