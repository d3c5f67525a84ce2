"""The engine that runs the queries in Cypher: cypher/read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.graph.reading import changed_edges
from kgedit.graph.state import graph_scope
from kgedit.store.scope import Scope
from kgedit.store.window import Window
from kgedit.timesteps.engines import (
    CHANGED_EDGES,
    CHANGED_STATEMENTS,
    FUNCTIONAL_BY_CONSTRAINT,
    FUNCTIONAL_BY_DATA,
    HOPS,
    NEAREST,
    TWO_HOPS,
    SimilarSubjects,
)
from kgedit.timesteps.engines.store import StoreEngine, find_static_facts, keep_edits, rank_similar
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

_EDITED_AT_ONCE = 5_000
"""A batch shares the look-up of common facts; its result, some hundred holders of each, takes about 200 MB."""

_ITEMS_AT_ONCE = 5_000
"""Items whose hops one query finds; the facts of a batch stay within the memory that Neo4j gives one query."""

_PAIRS_AT_ONCE = 200_000
"""Pairs of a subject and a document in one query: 14 subjects with 36,000 documents took more than 2.1 GiB."""

_MOST_DOCUMENTS = 20_000
"""With more documents, the lengths of their vectors exceed the memory that Neo4j gives one query."""


class GraphEngine:
    """Queries the graph.

    A graph that holds a part of the snapshots (kgedit.store.scope) reports changes within its scope. Queries over all
    facts, changed or not, then use the snapshots: functional relations and similar subjects.
    Which facts about similar subjects are unchanged is always read from the snapshots, because comparing the facts of a
    relation takes Cypher twice as long as finding the subjects (docs/measurements/2026-11-25-performance.md).

    Attributes:
        holds_statements: Whether the graph has every version of every statement, which changed_statements needs.
    """

    name: ClassVar[str] = "graph"

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        scope = graph_scope(graph)
        self._whole = replace(scope, evidence=True) == Scope()
        self.holds_statements = self._whole and scope.evidence
        self._store = StoreEngine()

    def check(self, window: Window) -> None:
        rows = self._graph.rows("MATCH (s:Snapshot) WHERE s.state = 'complete' RETURN s.date AS date ORDER BY date")
        loaded = {row["date"] for row in rows}
        for snapshot in (window.old, window.new):
            if snapshot.date not in loaded:
                raise TimestepError(
                    f"The graph lacks the snapshot of {snapshot.manifest['date']}. Run its load-dump command "
                    "again, or export without the graph: --engine store"
                )

    def changed_edges(self, window: Window) -> Iterator[pa.Table]:
        found = changed_edges(self._graph, older=window.old.date, newer=window.new.date)
        yield found.select(CHANGED_EDGES.names).cast(CHANGED_EDGES)

    def changed_statements(self, window: Window) -> pa.Table:
        if window.new.is_part:
            return self._store.changed_statements(window)
        if not self.holds_statements:
            raise TimestepError(
                "The graph does not contain all statements, which the profile wikifactdiff compares. Rebuild it: "
                "kgedit graph rebuild. Or export without it: --engine store"
            )
        query = read_query("changed_statements")
        found = self._graph.table(query.text, _days(window), columns=query.columns)
        if any(window.old.date < date < window.new.date for date in self._graph.snapshot_dates()):
            # A version that was absent for a while has two edges, and is the same in both snapshots.
            found = window.select(_CHANGED_VERSIONS, found=found)
        return found.select(CHANGED_STATEMENTS.names).cast(CHANGED_STATEMENTS)

    def two_hops(self, window: Window) -> pa.Table:
        return self._ask("two_hop_changes", _days(window) | {"stop": list(TWO_HOP_STOP_LIST)}, TWO_HOPS)

    def hops_from(self, window: Window, items: pa.Table, properties: Sequence[str], *, fan: int) -> pa.Table:
        if not self._whole:
            return self._store.hops_from(window, items, properties, fan=fan)
        return self._hops("hops_from", window, items, {"properties": list(properties), "fan": fan})

    def hops_to(self, window: Window, items: pa.Table, properties: Sequence[str], *, fan: int, max_df: int) -> pa.Table:
        if not self._whole:
            return self._store.hops_to(window, items, properties, fan=fan, max_df=max_df)
        return self._hops("hops_to", window, items, {"properties": list(properties), "fan": fan, "max_df": max_df})

    def _hops(self, query: str, window: Window, items: pa.Table, given: dict[str, Any]) -> pa.Table:
        names, asked = sorted(set(items["id"].to_pylist())), _days(window) | given
        found = [
            self._ask(query, asked | {"items": names[start : start + _ITEMS_AT_ONCE]}, HOPS)
            for start in range(0, len(names), _ITEMS_AT_ONCE)
        ]
        return pa.concat_tables([HOPS.empty_table(), *found]).sort_by([(name, "ascending") for name in HOPS.names])

    def functional_by_data(self, window: Window, properties: pa.Table, *, min_subjects: int) -> pa.Table:
        if not self._whole or window.new.is_part:
            return self._store.functional_by_data(window, properties, min_subjects=min_subjects)
        asked = {"date": window.new.date, "properties": _distinct(properties), "min_subjects": min_subjects}
        return self._ask("functional_by_data", asked, FUNCTIONAL_BY_DATA)

    def functional_by_constraint(self, window: Window) -> pa.Table:
        if not self.holds_statements:
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

    def similar_subjects(self, window: Window, edits: str, *, max_df: int, k: int, pool: int) -> SimilarSubjects:
        if not self._whole or window.new.is_part:
            return self._store.similar_subjects(window, edits, max_df=max_df, k=k, pool=pool)
        keep_edits(window, edits)
        subjects = window.select("SELECT DISTINCT subject FROM edits ORDER BY subject")["subject"].to_pylist()
        asked = {"from": window.old.date, "max_df": max_df}
        shared = [
            self._ask("shared_facts", asked | {"subjects": subjects[start : start + _EDITED_AT_ONCE]}, _SHARED_FACTS)
            for start in range(0, len(subjects), _EDITED_AT_ONCE)
        ]
        find_static_facts(window)
        window.run(_SHARED_TABLES, shared=pa.concat_tables([_SHARED_FACTS.empty_table(), *shared]))
        return rank_similar(window, k=k, pool=pool)

    def nearest_entities(
        self, window: Window, subjects: pa.Table, documents: pa.Table, *, n: int
    ) -> Iterator[pa.Table]:
        if not self._whole or window.new.is_part or documents.num_rows > _MOST_DOCUMENTS:
            yield from self._store.nearest_entities(window, subjects, documents, n=n)
            return
        names, among = (_by_number(table) for table in (subjects, documents))
        if not among:
            return
        at_once = max(_PAIRS_AT_ONCE // len(among), 1)
        for start in range(0, len(names), at_once):
            asked = {"subjects": names[start : start + at_once], "documents": among, "n": n}
            yield self._ask("nearest_entities", _days(window) | asked, NEAREST)

    def _ask(self, query: str, parameters: dict[str, Any], schema: pa.Schema) -> pa.Table:
        return self._graph.table(read_query(query).text, parameters, columns=schema.names).cast(schema)


_SHARED_FACTS = pa.schema(
    [
        ("property", pa.string()),
        ("object", pa.string()),
        ("weight", pa.int64()),
        ("subjects", pa.list_(pa.string())),
        ("holders", pa.list_(pa.string())),
    ]
)
"""Columns of shared_facts.cypher that are used."""

_SHARED_TABLES = """
    CREATE OR REPLACE TEMP TABLE feature AS
    SELECT unnest(subjects) AS subject, property, object FROM shared;
    CREATE OR REPLACE TEMP TABLE pair AS
    SELECT row_number() OVER (ORDER BY property, object) AS pair, * FROM (
        SELECT DISTINCT ON (property, object) property, object, weight, holders FROM shared
    );
    CREATE OR REPLACE TEMP TABLE holder AS
    FROM (SELECT pair, unnest(holders) AS subject FROM pair) WHERE subject NOT IN (FROM edited_subject);
    ALTER TABLE pair DROP COLUMN holders
"""
"""Tables of shared_facts.sql, from the results of the graph."""

_CHANGED_VERSIONS = """
    WITH statement AS (SELECT subject, property, unnest(statement_ids) AS statement_id FROM found),
    version AS (
        SELECT statement_id, version, restricted, true AS is_old FROM old_claims WHERE snak = 'value'
            AND statement_id IN (SELECT statement_id FROM statement)
        UNION ALL
        SELECT statement_id, version, restricted, false FROM new_claims WHERE snak = 'value'
            AND statement_id IN (SELECT statement_id FROM statement)
    ), changed AS (
        SELECT statement_id FROM version GROUP BY statement_id, version, restricted HAVING count(DISTINCT is_old) = 1
    )
    SELECT DISTINCT subject, property FROM statement SEMI JOIN changed USING (statement_id) ORDER BY subject, property
"""
"""Groups in which a version of a statement is in only one snapshot."""


def _by_number(table: pa.Table) -> list[str]:
    return sorted(set(table["id"].to_pylist()), key=lambda name: int(name[1:]))


def _days(window: Window) -> dict[str, Any]:
    return {"from": window.old.date, "to": window.new.date}


def _distinct(table: pa.Table) -> list[str]:
    return sorted(table["property"].unique().to_pylist())
