"""Every query family, file by file, against DuckDB over the same snapshots: the sample world and two real slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graph.oracle import Oracle
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_queries, read_query
from kgedit.store.snapshots import Snapshot, list_snapshots

pytestmark = pytest.mark.graph

WINDOWS = ((0, 1), (1, 2), (0, 2))


@pytest.fixture(scope="module", params=["sample", "pat", "w12k"])
def home(request: pytest.FixtureRequest, home_of: Callable[[str], Path]) -> Path:
    return home_of(request.param)


@pytest.fixture(scope="module")
def graph(home: Path) -> Iterator[Graph]:
    with Graph.open(home) as opened:
        yield opened


@pytest.fixture(scope="module", params=WINDOWS, ids=["first step", "second step", "both steps"])
def window(request: pytest.FixtureRequest, home: Path) -> tuple[Snapshot, Snapshot]:
    loaded = list_snapshots(home)
    return loaded[request.param[0]], loaded[request.param[1]]


def found(graph: Graph, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of a query file, whose columns are those that its header promises."""
    query = read_query(name)
    defaults = {parameter.name: parameter.default for parameter in query.parameters}
    table = graph.table(query.text, defaults | parameters)
    assert table.column_names == [column for column, _ in query.returns]
    return [tuple(row.values()) for row in table.to_pylist()]


def dates(window: tuple[Snapshot, Snapshot]) -> dict[str, int]:
    return {"from": window[0].date, "to": window[1].date}


def test_changed_edges(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    rows = found(graph, "changed_edges", **dates(window))
    assert rows == Oracle(*window).changed_edges()
    assert rows


def test_two_hops_over_changed_edges(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    stop = next(p.default for p in read_query("two_hop_changes").parameters if p.name == "stop")
    rows = found(graph, "two_hop_changes", **dates(window))
    assert rows == Oracle(*window).two_hops(stop)
    assert rows


def test_functional_relations_by_constraint(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    rows = found(graph, "functional_by_constraint", date=window[1].date)
    assert rows == Oracle(*window).functional_by_constraint()


def test_functional_relations_by_data(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    rows = found(graph, "functional_by_data", date=window[1].date, min_subjects=3)
    expected = Oracle(*window).functional_by_data(3)
    assert [row[:2] for row in rows] == [row[:2] for row in expected]
    assert [row[2:] for row in rows] == [pytest.approx(row[2:]) for row in expected]
    assert rows


def test_static_facts(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    oracle = Oracle(*window)
    properties = sorted({row[1] for row in oracle.changed_edges()})
    rows = found(graph, "static_facts", **dates(window), properties=properties, limit=10**9)
    assert rows == oracle.static_facts(properties)
    assert rows


def test_similar_subjects_of_a_batch_and_of_one(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    oracle = Oracle(*window)
    changed = oracle.changed_edges()
    edits = [
        {"case_id": f"{row[0]}:{row[1]}", "subject": row[0], "property": row[1], "avoid": row[2] + row[3]}
        for row in changed
        if all(row[5:]) and len(row[3]) == 1
    ][:300]
    edited = sorted({row[0] for row in changed})
    degrees = graph.rows("MATCH (t:Term) RETURN t.id AS id, t.kind AS kind, COUNT { (t)<-[:CLAIM]-() } AS n")
    rows = found(graph, "similar_static_facts", **dates(window), edits=edits, edited=edited, k=3)
    assert rows == oracle.similar_static_facts(
        edits,
        edited,
        items=sum(row["kind"] == "item" for row in degrees),
        max_df=500,
        k=3,
        degrees={row["id"]: row["n"] for row in degrees},
    )
    assert rows
    for case_id, similar, _, score in rows[:10]:
        subject, property_id = case_id.split(":")
        likes = found(
            graph, "similar_subjects", subject=subject, date=window[0].date, k=10**6, **{"except": [property_id]}
        )
        assert (similar, score) in {(row[0], row[3]) for row in likes}


def test_edge_diff_counts(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    rows = found(graph, "edge_diff_counts", **dates(window))
    between = "c.valid_{0} > $from AND c.valid_{0} <= $to"
    for column, side in ((1, "from"), (2, "to")):
        total = graph.rows(f"MATCH ()-[c:CLAIM]->() WHERE {between.format(side)} RETURN count(c) AS n", dates(window))
        assert sum(row[column] for row in rows) == total[0]["n"]


@pytest.mark.parametrize("name", ["changed_edges", "two_hop_changes"])
def test_looking_for_changes_costs_what_changed(graph: Graph, window: tuple[Snapshot, Snapshot], name: str) -> None:
    from neo4j import GraphDatabase

    address = graph.address
    with (
        GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver,
        driver.session(database=address.database) as session,
    ):
        plan = session.run("EXPLAIN " + read_query(name).text, dates(window) | {"stop": []}).consume().plan
    assert plan is not None
    operators = list(_operators(plan))
    assert sum("DirectedRelationshipIndexSeekByRange" in operator for operator in operators) == 4, operators
    assert not any("AllNodesScan" in operator or "NodeByLabelScan" in operator for operator in operators), operators
    assert not any("RelationshipTypeScan" in operator for operator in operators), operators


def _operators(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["operatorType"]
    for child in plan.get("children", ()):
        yield from _operators(child)


def test_every_query_file_runs_with_what_its_header_says(graph: Graph, window: tuple[Snapshot, Snapshot]) -> None:
    subject, property_id = Oracle(*window).changed_edges()[0][:2]
    given: dict[str, Any] = {
        "from": window[0].date, "to": window[1].date, "date": window[1].date, "subject": subject, "item": subject,
        "property": property_id, "properties": [property_id], "edits": [], "edited": [],
    }  # fmt: skip
    for query in read_queries().values():
        parameters = {p.name: given[p.name] if p.required else p.default for p in query.parameters}
        graph.read_only_query(query.text, parameters, timeout=60, limit=5)
        assert query.finds
        assert query.returns
