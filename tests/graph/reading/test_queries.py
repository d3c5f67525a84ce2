"""Every query family, file by file, against DuckDB over the same snapshots: two made worlds and two real slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from graph.oracle import Oracle
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_queries, read_query, write_query
from kgedit.store.delta import DELTA_STEPS
from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot, list_snapshots
from kgedit.store.window import Window
from kgedit.timesteps.engines import SimilarSubjects
from kgedit.timesteps.engines import graph as graph_engine
from kgedit.timesteps.engines.functionality import Bounds, measure_functionality
from kgedit.timesteps.engines.graph import GraphEngine
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

pytestmark = pytest.mark.graph

WINDOWS = {"first step": (0, 1), "second step": (1, 2), "both steps": (0, 2)}
REAL = ("pat", "w12k")
PLANNED = ["sample", pytest.param("w12k", marks=pytest.mark.shared)]
"""Worlds in which plans are looked at: the smallest, and the one with the largest relations. The others have the same
plans, operator by operator, and planning all queries takes Neo4j twenty processor seconds in each world.
"""
WINDOWS_OF_WORLDS = [
    *(pytest.param("sample", step, id=f"sample-{step}") for step in WINDOWS),
    *(pytest.param("generated", step, id=f"generated-{step}") for step in ("first step", "second step")),
    *(pytest.param(world, "both steps", id=world, marks=pytest.mark.shared) for world in REAL),
]
"""The sample has every kind of change in each window, and facts that only the snapshot between its ends has. The larger
worlds add size, for which fewer windows are enough.
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "window" in metafunc.fixturenames:
        metafunc.parametrize(("home", "window"), WINDOWS_OF_WORLDS, indirect=True, scope="module")
    elif "home" in metafunc.fixturenames:
        metafunc.parametrize("home", PLANNED, indirect=True, scope="module")


@pytest.fixture(scope="module")
def home(request: pytest.FixtureRequest, home_of: Callable[[str], Path]) -> Path:
    return home_of(request.param)


@pytest.fixture(scope="module")
def graph(home: Path) -> Iterator[Graph]:
    with Graph.open(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def window(request: pytest.FixtureRequest, home: Path) -> tuple[Snapshot, Snapshot]:
    older, newer = WINDOWS[request.param]
    loaded = list_snapshots(home)
    return loaded[older], loaded[newer]


@pytest.fixture(scope="module")
def oracle(window: tuple[Snapshot, Snapshot]) -> Oracle:
    return Oracle(*window)


def found(graph: Graph, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """Rows of a query file; golden files test labels, and that its columns are those that its header names."""
    query = read_query(name)
    defaults = {parameter.name: parameter.default for parameter in query.parameters}
    table = graph.table(query.text, defaults | parameters, columns=query.columns)
    return [
        tuple(value for column, value in row.items() if not column.endswith(("_label", "_labels")))
        for row in table.to_pylist()
    ]


def dates(window: tuple[Snapshot, Snapshot]) -> dict[str, int]:
    return {"from": window[0].date, "to": window[1].date}


def test_facts_of_the_store_are_those_of_the_oracle(window: tuple[Snapshot, Snapshot], oracle: Oracle) -> None:
    for side, snapshot in zip(("old", "new"), window, strict=True):
        rows = duckdb.sql(f"SELECT subject, property, object FROM {literal(snapshot.facts)} ORDER BY ALL").fetchall()
        assert rows == oracle.facts(side)
        assert len(rows) == snapshot.manifest["facts"]


def test_the_engines_agree(graph: Graph, window: tuple[Snapshot, Snapshot], tmp_path: Path) -> None:
    with Window(*window, spill=tmp_path / "spill") as both:
        engines = GraphEngine(graph), StoreEngine()
        edges = [pa.concat_tables(engine.changed_edges(both)).sort_by(_BY_PAIR) for engine in engines]
        assert edges[0].equals(edges[1])
        assert edges[0].num_rows
        for question in ("changed_statements", "two_hops", "functional_by_constraint"):
            answers = [getattr(engine, question)(both) for engine in engines]
            assert answers[0].equals(answers[1]), question
            assert answers[0].num_rows or question == "functional_by_constraint"
        counted = [engine.functional_by_data(both, edges[0], min_subjects=3) for engine in engines]
        assert counted[0].equals(counted[1])
        assert counted[0].num_rows


@pytest.mark.parametrize("batch", [7, 1000])
def test_the_engines_find_the_same_similar_subjects(
    graph: Graph,
    window: tuple[Snapshot, Snapshot],
    oracle: Oracle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
) -> None:
    monkeypatch.setattr(graph_engine, "_EDITED_AT_ONCE", batch)
    edits = edits_of(oracle)[: 4 * batch - 2]  # at most four batches, the last one shorter; or all in one
    with Window(*window, spill=tmp_path / "spill") as both:
        both.add("given", edits_table(edits))
        for max_df in (500, 2):
            answers = [
                read_similar(engine.similar_subjects(both, "FROM given", max_df=max_df, k=3, pool=5))
                for engine in (GraphEngine(graph), StoreEngine())
            ]
            assert answers[0].equals(answers[1])
            assert answers[0]["score"].null_count < answers[0].num_rows or max_df == 2
            assert True in answers[0]["untouched"].to_pylist()


@pytest.mark.parametrize("batch", [1, 500_000])
def test_the_engines_find_the_same_nearest_entities(
    graph: Graph, window: tuple[Snapshot, Snapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(graph_engine, "_PAIRS_AT_ONCE", batch)
    with Window(*window, spill=tmp_path / "spill") as both:
        subjects = both.select(
            "SELECT DISTINCT subject AS id FROM changed ORDER BY md5(subject) LIMIT $few",
            {"few": 7 if batch > 1 else 4},  # a batch of one pair is a query for each subject
            changed=StoreEngine().changed_statements(both),
        )
        # Not all items: an item that is not a document must not affect weights, lengths or neighbours.
        documents = both.select("SELECT id FROM old_entities WHERE kind = 'item' AND md5_number_lower(id) % 4 > 0")
        answers = [
            pa.concat_tables(engine.nearest_entities(both, subjects, documents, n=20))
            for engine in (GraphEngine(graph), StoreEngine())
        ]
    assert answers[0].equals(answers[1])
    # A subject that shares no feature with a document has no neighbour.
    assert subjects.num_rows // 2 < len(set(answers[0]["subject"].to_pylist())) <= subjects.num_rows
    assert answers[0]["cosine"].to_pylist() != [10**6] * answers[0].num_rows


def test_changed_edges(graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle) -> None:
    rows = found(graph, "changed_edges", **dates(window))
    assert rows == oracle.changed_edges()
    assert rows


def test_two_hops_over_changed_edges(graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle) -> None:
    rows = found(graph, "two_hop_changes", **dates(window))
    assert rows == oracle.two_hops(list(TWO_HOP_STOP_LIST))
    assert rows


@pytest.mark.parametrize(("name", "end"), [("hops_from", "subject"), ("hops_to", "object")])
def test_hops_around_items(
    graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle, tmp_path: Path, name: str, end: str
) -> None:
    items = sorted({row[0] for row in oracle.changed_edges() if row[0][0] == "Q"})[:200]
    items += sorted({thing for row in oracle.changed_edges() for thing in row[3] if thing[0] == "Q"})[:200]
    properties = sorted({row[1] for row in oracle.facts("new")})
    asked = pa.table({"id": items})
    for fan, max_df in ((3, 10_000), (1, 2)):
        expected = oracle.hops(items, end, fan=fan, max_df=max_df)
        given = {"fan": fan} | ({"max_df": max_df} if end == "object" else {})
        rows = found(graph, name, items=sorted(set(items)), properties=properties, **dates(window), **given)
        assert rows == expected
        with Window(*window, spill=tmp_path / "spill") as both:
            for engine in (StoreEngine(), GraphEngine(graph)):
                answer = getattr(engine, name)(both, asked, properties, **given)
                assert [tuple(row.values()) for row in answer.to_pylist()] == expected, engine.name
        assert rows


def test_functional_relations_by_constraint(graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle) -> None:
    rows = found(graph, "functional_by_constraint", date=window[1].date)
    expected = oracle.functional_by_constraint()
    assert rows == [(row[0], *row[2:]) for row in expected]


def test_functional_relations_by_data_and_by_the_store(
    graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle
) -> None:
    rows = found(graph, "functional_by_data", date=window[1].date, min_subjects=3)
    assert rows == oracle.functional_by_data(3)
    assert rows
    measured = measure_functionality(window[1], bounds=Bounds(subjects=3)).to_pylist()
    assert sorted((row["property"], row["subjects"], row["functional"]) for row in measured) == rows


def test_static_facts(graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle) -> None:
    properties = sorted({row[1] for row in oracle.changed_edges()})
    rows = found(graph, "static_facts", **dates(window), properties=properties, limit=10**9)
    assert [row[:-1] for row in rows] == oracle.static_facts(properties)
    edited = oracle.edited()
    assert all(untouched == edited.isdisjoint({subject, end}) for subject, _, end, untouched in rows)
    assert rows


def test_similar_static_facts(graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle, tmp_path: Path) -> None:
    edits = edits_of(oracle)
    expected = oracle.similar_static_facts(edits, max_df=500, k=3)
    assert expected
    with Window(*window, spill=tmp_path / "spill") as both:
        both.add("given", edits_table(edits))
        similar = StoreEngine().similar_subjects(both, "FROM given", max_df=500, k=3, pool=1).similar
        stored = pa.concat_tables(similar)
    rows = [tuple(row.values()) for row in stored.to_pylist()]
    assert sorted(rows) == sorted((f"{row[0]}:{row[1]}", row[2], row[1], *row[3:]) for row in expected)
    for subject, property_id in edits[:: max(len(edits) // 8, 1)]:
        own = [row[2:] for row in expected if row[:2] == (subject, property_id)]
        window_and_edit = {"subject": subject, "property": property_id, "k": 3, **dates(window)}
        assert found(graph, "similar_static_facts", **window_and_edit) == own
        likes = found(
            graph, "similar_subjects", subject=subject, date=window[0].date, k=10**6, **{"except": [property_id]}
        )
        assert {(similar, score) for similar, _, score in own} <= {(row[0], row[-1]) for row in likes}


def edits_of(oracle: Oracle) -> list[tuple[str, str]]:
    """Subjects and properties of the window that may become cases."""
    return [(row[0], row[1]) for row in oracle.changed_edges() if all(row[4:]) and len(row[3]) == 1][:300]


_BY_PAIR = [("subject", "ascending"), ("property", "ascending")]


def read_similar(found: SimilarSubjects) -> pa.Table:
    """Facts about similar subjects, and the static facts, whose scores are null."""
    return pa.concat_tables([*found.similar, found.static], promote_options="default")


def edits_table(edits: list[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {
            "case_id": [f"{subject}:{property_id}" for subject, property_id in edits],
            "subject": [subject for subject, _ in edits],
            "property": [property_id for _, property_id in edits],
        }
    )


def test_edge_diff_counts(graph: Graph, window: tuple[Snapshot, Snapshot], oracle: Oracle) -> None:
    rows = found(graph, "edge_diff_counts", **dates(window))
    assert rows == oracle.diff_counts()
    assert rows


SEEKS = {"changed_edges": 2, "changed_statements": 2, "two_hop_changes": 2, "edge_diff_counts": 2}


@pytest.fixture(scope="module")
def whole_window(home: Path) -> tuple[Snapshot, Snapshot]:
    """First and last snapshot: how a query is planned, and whether it runs, depends on the graph and on no window."""
    loaded = list_snapshots(home)
    return loaded[0], loaded[-1]


@pytest.mark.parametrize("name", SEEKS)
def test_looking_for_changes_costs_what_changed(
    graph: Graph, whole_window: tuple[Snapshot, Snapshot], name: str
) -> None:
    operators = plan_of(graph, read_query(name).text, dates(whole_window) | {"stop": []})
    assert sum("DirectedRelationshipIndexSeekByRange" in operator for operator in operators) == SEEKS[name], operators
    assert not [operator for operator in operators if "Scan" in operator], operators


@pytest.mark.parametrize(
    "name",
    [
        *("facts_on_date", "similar_subjects", "similar_static_facts", "statement_history"),
        *("shared_facts", "nearest_entities", "hops_from", "hops_to"),
    ],
)
def test_looking_at_a_subject_costs_what_is_around_it(
    graph: Graph, whole_window: tuple[Snapshot, Snapshot], name: str
) -> None:
    query = read_query(name)
    edit = {
        "subject": "Q1",
        "property": "P6",
        "subjects": ["Q1"],
        "documents": ["Q2"],
        "items": ["Q1"],
        "properties": ["P6"],
    }
    given = dates(whole_window) | {"date": whole_window[0].date} | edit
    operators = plan_of(graph, query.text, {p.name: p.default for p in query.parameters} | given)
    assert any("NodeUniqueIndexSeek" in operator for operator in operators), operators
    assert not [operator for operator in operators if "Scan" in operator], operators


@pytest.mark.parametrize("name", ["static_facts", "functional_by_data"])
def test_looking_at_a_property_costs_its_facts(
    graph: Graph, whole_window: tuple[Snapshot, Snapshot], name: str
) -> None:
    query = read_query(name)
    given = dates(whole_window) | {"date": whole_window[0].date, "properties": ["P6"]}
    operators = plan_of(graph, query.text, {p.name: p.default for p in query.parameters} | given)
    assert any("DirectedRelationshipIndexSeek" in operator for operator in operators), operators


@pytest.mark.parametrize("step", DELTA_STEPS)
def test_writing_a_row_costs_what_is_around_its_ends(graph: Graph, step: str) -> None:
    given = {"load": "", "before": 0, "after": 0, "rows": [], "date": 0, "month": "", "first": 0, "open": 0}
    operators = plan_of(graph, write_query(step), given)
    # The one node that counts the rows is found by its label.
    scans = [operator for operator in operators if "Scan" in operator]
    assert scans == ["NodeByLabelScan"], operators
    assert any("NodeUniqueIndexSeek" in operator for operator in operators), operators


def plan_of(graph: Graph, text: str, parameters: dict[str, Any]) -> list[str]:
    from neo4j import GraphDatabase

    address = graph.address
    with (
        GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver,
        driver.session(database=address.database) as session,
    ):
        plan = session.run("EXPLAIN " + text, parameters).consume().plan
    assert plan is not None
    return [name.removesuffix("@neo4j") for name in _operators(plan)]


def _operators(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["operatorType"]
    for child in plan.get("children", ()):
        yield from _operators(child)


def test_every_query_file_runs_with_what_its_header_says(graph: Graph, whole_window: tuple[Snapshot, Snapshot]) -> None:
    days = dates(whole_window)
    subject, property_id = found(graph, "changed_edges", **days)[0][:2]
    given: dict[str, Any] = {
        **days, "date": days["to"], "subject": subject, "item": subject,
        "property": property_id, "properties": [property_id], "name": "of", "most": 1000,
        "question": "Who is it?", "subjects": [subject], "documents": [subject], "items": [subject],
        "edits": [{"case_id": "", "subject": subject, "property": property_id}],
    }  # fmt: skip
    for query in read_queries().values():
        parameters = {p.name: given[p.name] if p.required else p.default for p in query.parameters}
        graph.read_only_query(query.text, parameters, timeout=60, limit=5)
        assert query.finds
        assert query.returns
