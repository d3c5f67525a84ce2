"""Neighbourhood of an item, as facts and terms of a snapshot and as a networkx graph."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from world.dumps import Json, entity, entity_value, load, quantity_value, snak, statement, time_value, write_dump

import kgedit

DAY = "2021-01-04"


def about(property_id: str, object_id: str, *qualifiers: Json) -> Json:
    return statement(snak(property_id, entity_value(object_id), "wikibase-item"), *qualifiers)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> kgedit.Home:
    """A town with a mayor, who lives in the town's country, whose head lives there too; Q9 was merged into Q2."""
    folder = tmp_path_factory.mktemp("home")
    start = snak("P580", time_value("+2015-00-00T00:00:00Z", 9))
    people = statement(snak("P1082", quantity_value("+42"), "quantity"))
    dump = write_dump(
        folder / "dump.json",
        [
            entity("Q1", about("P6", "Q2", start), about("P17", "Q3"), people, label="Arvika"),
            entity("Q2", about("P551", "Q3"), label="Ann"),
            entity("Q3", about("P35", "Q4"), about("P47", "Q404"), label="Sweden"),
            entity("Q4", about("P551", "Q3"), label="Bo"),
            entity("P6", label="head of government"),
        ],
    )
    (folder / "redirects.tsv").write_text("Q9\tQ2\n")
    load(folder, dump, DAY, redirects=folder / "redirects.tsv")
    return kgedit.Home(folder)


def edges(graph: nx.MultiDiGraph) -> set[tuple[str, str, str]]:
    return {(subject, key, target) for subject, target, key in graph.edges(keys=True) if target[0] == "Q"}


TOWN = {("Q1", "P6", "Q2"), ("Q1", "P17", "Q3")}
NEAR = TOWN | {("Q2", "P551", "Q3"), ("Q3", "P35", "Q4"), ("Q3", "P47", "Q404")}


@pytest.mark.parametrize(("depth", "found"), [(0, set()), (1, TOWN), (2, NEAR), (3, NEAR | {("Q4", "P551", "Q3")})])
def test_each_step_adds_the_facts_of_what_was_reached(
    home: kgedit.Home, depth: int, found: set[tuple[str, str, str]]
) -> None:
    graph = home.subgraph("Q1", depth=depth, date=DAY)
    assert edges(graph) == found
    distances = nx.single_source_shortest_path_length(graph, "Q1")
    assert dict(graph.nodes(data="distance")) == distances


def test_incoming_facts_count_as_steps_when_asked_for(home: kgedit.Home) -> None:
    assert edges(home.subgraph("Q2", depth=1, date=DAY)) == {("Q2", "P551", "Q3")}
    assert edges(home.subgraph("Q2", depth=1, date=DAY, incoming=True)) == {("Q2", "P551", "Q3"), ("Q1", "P6", "Q2")}


def test_nodes_and_edges_say_what_the_snapshot_knows_of_them(home: kgedit.Home) -> None:
    graph = home.subgraph("Q1", date=DAY)
    fact = graph.edges["Q1", "Q2", "P6"]
    assert (fact["property_label"], fact["start"], fact["rank"]) == ("head of government", "2015", "normal")
    assert "end" not in fact
    (number,) = (name for name, kind in graph.nodes(data="kind") if kind == "value")
    assert (graph.nodes[number]["label"], graph.nodes[number]["value_type"]) == ("42", "quantity")
    assert graph.nodes["Q2"]["label"] == "Ann"
    assert graph.graph == {"snapshot": DAY, "item": "Q1", "depth": 1, "incoming": False}


def test_networkx_can_write_it(home: kgedit.Home, tmp_path: Path) -> None:
    graph = home.subgraph("Q1", depth=3, date=DAY)
    nx.write_graphml(graph, tmp_path / "around.graphml")
    assert set(nx.read_graphml(tmp_path / "around.graphml").nodes) == set(graph.nodes)


@pytest.mark.parametrize(
    ("item", "options", "message"),
    [
        ("Q77", {}, "has no Q77"),
        ("Q404", {}, "has no Q404"),
        ("Q9", {}, "merged into Q2"),
        ("Q1", {"max_facts": 2}, "3 facts lie within 1 steps of Q1, more than 2"),
        ("Q1", {"depth": -1}, "depth of 0 or more"),
    ],
)
def test_what_cannot_be_given_says_why(home: kgedit.Home, item: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(kgedit.StoreError, match=message):
        home.subgraph(item, date=DAY, **options)
