"""Closures follow chains as networkx does, including cycles, which are listed."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import networkx as nx
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from world.dumps import entity, entity_value, load, snak, statement, write_dump

import kgedit
from kgedit.cli import main
from kgedit.store.closures import LINKS, below, containment_links, find_cycles, list_cycles, make_above, make_reached

IDS = st.integers(1, 9).map(lambda number: f"Q{number}")
STEPS = st.lists(st.tuples(IDS, IDS), max_size=25)
"""Links from inner to outer: small worlds in which most chains end in a circle."""


def links(steps: list[tuple[str, str]]) -> pa.Table:
    return pa.table([[inner for inner, _ in steps], [outer for _, outer in steps]], schema=LINKS)


def graph(steps: list[tuple[str, str]]) -> nx.DiGraph:
    return nx.DiGraph(steps)


@settings(deadline=None, max_examples=20)
@given(STEPS, st.lists(st.tuples(st.sampled_from(["a", "b"]), IDS), min_size=1, max_size=4), st.integers(0, 4))
def test_what_lies_below_is_what_networkx_finds(
    steps: list[tuple[str, str]], roots: list[tuple[str, str]], depth: int
) -> None:
    world = graph([(outer, inner) for inner, outer in steps])
    world.add_nodes_from(root for _, root in roots)
    with duckdb.connect() as connection:
        connection.register("links", links(steps))
        for bound in (None, depth):
            found = connection.sql(below(roots, "links", depth=bound)).fetchall()
            expected = {
                (name, id_) for name, root in roots for id_ in nx.single_source_shortest_path_length(world, root, bound)
            }
            assert set(found) == expected
            assert len(found) == len(expected)


@settings(deadline=None, max_examples=20)
@given(STEPS, st.sets(IDS, max_size=3), st.integers(1, 6))
def test_what_lies_around_is_what_networkx_finds(steps: list[tuple[str, str]], starts: set[str], depth: int) -> None:
    world = graph(steps)
    expected = set()
    for start in starts & set(world):
        for first in world[start]:
            near = nx.single_source_shortest_path_length(world, first, depth - 1)
            expected |= {(start, id_, steps_from_first + 1) for id_, steps_from_first in near.items()}
    shortest: dict[tuple[str, str], int] = {}
    for start, id_, distance in sorted(expected, key=lambda row: -row[2]):
        shortest[start, id_] = distance
    with duckdb.connect() as connection:
        connection.register("links", links(steps))
        connection.register("starts", pa.table({"id": sorted(starts)}, schema=pa.schema([("id", pa.string())])))
        first_steps = "SELECT * FROM links WHERE inner_id IN (FROM starts)"
        make_reached(connection, first=first_steps, links="links", depth=depth)
        found = connection.sql("SELECT inner_id, outer_id, depth FROM reached").fetchall()
    assert sorted(found) == sorted((*pair, distance) for pair, distance in shortest.items())


@settings(deadline=None, max_examples=20)
@given(STEPS, st.sets(IDS, max_size=3))
def test_what_lies_above_is_what_networkx_finds(steps: list[tuple[str, str]], starts: set[str]) -> None:
    world = graph(steps)
    world.add_nodes_from(starts)
    with duckdb.connect() as connection:
        connection.register("links", links(steps))
        connection.register("starts", pa.table({"id": sorted(starts)}, schema=pa.schema([("id", pa.string())])))
        make_above(connection, ids="FROM starts", links="links")
        found = [id_ for (id_,) in connection.sql("SELECT id FROM above").fetchall()]
    assert sorted(found) == sorted(starts.union(*(nx.descendants(world, start) for start in starts)))


@settings(deadline=None, max_examples=20)
@given(STEPS)
def test_circles_are_the_strongly_connected_components_of_networkx(steps: list[tuple[str, str]]) -> None:
    world = graph(steps)
    circles = [
        part for part in nx.strongly_connected_components(world)
        if len(part) > 1 or any(world.has_edge(one, one) for one in part)
    ]  # fmt: skip
    found = find_cycles(links(steps))
    assert list(zip(*found.to_pydict().values(), strict=True)) == sorted(
        (min(part), one) for part in circles for one in part
    )


def about(property_id: str, object_id: str) -> dict[str, object]:
    return statement(snak(property_id, entity_value(object_id), "wikibase-item"))


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A class below itself by way of another, a part of its own part (Q12 holds Q11), and a chain without circle."""
    return write_dump(
        tmp_path / "dump.json",
        [
            entity("Q10", about("P279", "Q9"), label="tool"),
            entity("Q9", about("P279", "Q10"), about("P279", "Q8"), label="device"),
            entity("Q8", label="thing"),
            entity("Q11", about("P527", "Q12"), label="wheel"),
            entity("Q12", about("P527", "Q11"), label="hub"),
            entity("Q13", about("P131", "Q14"), label="village"),
        ],
    )


def test_the_circles_of_a_snapshot_are_listed_with_labels(tmp_path: Path, world: Path) -> None:
    found = list_cycles(load(tmp_path / "home", world, "2021-01-04"), spill=tmp_path / "spill").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("subclass of", "Q9", "Q9", "device"),
        ("subclass of", "Q9", "Q10", "tool"),
        ("containment", "Q9", "Q9", "device"),
        ("containment", "Q9", "Q10", "tool"),
        ("containment", "Q11", "Q11", "wheel"),
        ("containment", "Q11", "Q12", "hub"),
    ]


def test_has_part_is_part_of_turned_round() -> None:
    facts = pa.table({"subject": ["Q1", "Q2", "Q3"], "property": ["P527", "P361", "P17"], "object": ["Q5", "Q6", "Q7"]})
    with duckdb.connect() as connection:
        connection.register("facts", facts)
        assert sorted(connection.sql(containment_links("facts")).fetchall()) == [("Q2", "Q6"), ("Q5", "Q1")]


def test_the_command_and_the_api_list_the_same_circles(
    tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tmp_path / "home", world, "2021-01-04")
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    ran = CliRunner().invoke(main, ["cycles", "--date", "2021-01-04", "--format", "json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == kgedit.Home(tmp_path / "home").cycles("2021-01-04").to_pylist()
    assert len(json.loads(ran.stdout)) == 6


def test_nothing_follows_chains_elsewhere() -> None:
    """Closures are written in one module: no other query of the package is recursive."""
    package = Path(kgedit.__file__).parent
    recursive = [path.name for path in package.rglob("*.py") if "RECURSIVE" in path.read_text(encoding="utf-8")]
    assert recursive == ["closures.py"]
