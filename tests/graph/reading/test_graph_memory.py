"""The memory read from Neo4j equals that of the store, and a question to the graph finds the same facts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from graph.worlds import kgedit
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.graph_memory.asking import ask_memory
from kgedit.graph_memory.building import DATED_FACTS, learn_dated_facts, read_dated_facts, read_graph_facts
from kgedit.graph_memory.gate import read_gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.memory_file import read_memory_file
from kgedit.graph_memory.retrieval import Finding, Search
from kgedit.llm.embeddings import load_embedder
from kgedit.records.cases import Case
from kgedit.store.snapshots import list_snapshots
from kgedit.timesteps.timestep import Timestep
from kgedit.wikidata.times import day_number

pytestmark = pytest.mark.graph

DAY = datetime.date(2023, 2, 27)
EMBED = load_embedder("character-ngrams", device="cpu")
GATE = read_gate("character-ngrams")
QUESTIONS = (
    "Who is the head of government of Germany?",
    "Who is the spouse of the head of government of Germany?",
    "Who is the spouse of the head of government of norway?",
    "What is the capital of Norway's neighbour Sweden?",
    "Who was the head of government of Germany in June 2021?",
    "Where was the head of government of Sao Paulo born?",
    "What is the capital of Brazil?",
    "Who is the head of government of Narnia?",
)


@pytest.mark.parametrize("properties", [(), ("P6", "P26")])
def test_the_graph_has_the_facts_of_the_store(sample_home: Path, properties: tuple[str, ...]) -> None:
    snapshots = list_snapshots(sample_home)
    with Graph.open(sample_home) as graph:
        held = read_graph_facts(graph, properties=properties)
    keys = ["since", "subject", "property", "object"]
    result = [name for name in held.facts.column_names if name != "subject_aliases"]  # none is null or an empty list
    expected = read_dated_facts(snapshots, properties).select(result).sort_by([(key, "ascending") for key in keys])
    assert held.snapshots == tuple(one.date for one in snapshots)
    assert held.facts.select(result).sort_by([(key, "ascending") for key in keys]).equals(expected)
    assert held.facts.num_rows > 50


@pytest.mark.parametrize("chosen", [(), ("--as-of", "2023-02-27", "--property", "P6", "--property", "P26")])
def test_the_command_builds_the_same_memory_from_the_graph_as_from_the_store(
    chosen: tuple[str, ...], sample_home: Path, tmp_path: Path
) -> None:
    for source in ("graph", "home"):
        kgedit(sample_home, "memory", "build", f"--{source}", *chosen, "--out", tmp_path / source)
    of_graph, of_home = (read_memory_file(tmp_path / source) for source in ("graph", "home"))
    assert of_graph.manifest["counts"] == of_home.manifest["counts"]
    assert of_graph.manifest["counts"]["facts"] > 50
    for name, table in of_home.tables.items():
        assert of_graph.tables[name].equals(table), name


def test_the_queries_of_the_guide_find_what_the_memory_finds(sample_home: Path) -> None:
    whole = GraphMemory(EMBED, gate=GATE)
    found = 0
    with Graph.open(sample_home) as graph:
        learn_dated_facts(whole, read_graph_facts(graph, as_of=DAY).facts, as_of=DAY)
        for question in QUESTIONS:
            part = _memory_of_question(graph, question)
            result, expected = (
                [
                    [(fact["question"], fact["answer"]) for fact in path["facts"]]
                    for path in ask_memory(memory, question, Search(gate=0.0, misspelt=False)).record()["paths"]
                ]
                for memory in (part, whole)
            )
            assert result == expected, question
            found += bool(result)
    assert found >= 5


@pytest.mark.slow
def test_a_memory_of_a_timestep_tells_of_its_edits_what_a_memory_of_the_graph_tells(
    sample_home: Path, tmp_path: Path
) -> None:
    kgedit(sample_home, "export-timestep", "--from", "2021-01-04", "--to", str(DAY), "--out", tmp_path / "timestep")
    kgedit(sample_home, "memory", "build", "--timestep", tmp_path / "timestep", "--out", tmp_path / "edits")
    kgedit(sample_home, "memory", "build", "--graph", "--as-of", str(DAY), "--out", tmp_path / "world")
    cases = list(Timestep.open(tmp_path / "timestep").cases())
    unchanged = [probe.question for case in cases for probe in case.probes if probe.axis == "locality"]
    edits, world = (_loaded(tmp_path / name) for name in ("edits", "world"))
    assert len(cases) > 100
    different = _different(edits, world, cases, "")
    # The graph has one label of each item, of its newest snapshot: Twitter is called X there.
    assert different == [("Twitter", ["Elon Musk"], [])]
    # A timestep says when the new value began; that the old one had ended earlier stands in the dump alone.
    before = [each for each in _different(edits, world, cases, "2021-02") if each[0] != "Twitter"]
    assert before == [("Christian Democratic Union", ["Annegret Kramp-Karrenbauer"], [])]
    usual = Search(misspelt=False)
    assert not any(finding.paths for finding in edits.find(unchanged, usual))
    assert all(finding.paths for finding in world.find(unchanged, usual))


def _memory_of_question(graph: Graph, question: str) -> GraphMemory:
    """A memory of what the two queries of the guide find."""
    memory = GraphMemory(EMBED, gate=GATE)
    named = _queried(graph, "memory_subjects", {"question": question})
    if named:
        subjects = sorted({row["id"] for row in named})
        rows = _queried(graph, "memory_walk", {"subjects": subjects, "date": day_number(DAY)})
        learn_dated_facts(memory, pa.Table.from_pylist(rows, schema=DATED_FACTS), as_of=DAY)
    return memory


def _queried(graph: Graph, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    query = read_query(name)
    return graph.read_only_query(query.text, query.bind(parameters), timeout=120.0)


def _loaded(file: Path) -> GraphMemory:
    memory = GraphMemory(EMBED, gate=GATE)
    memory.load_tables(read_memory_file(file).tables)
    return memory


def _different(
    one: GraphMemory, other: GraphMemory, cases: list[Case], as_of: str
) -> list[tuple[str, list[str], list[str]]]:
    """Subjects of the edits for which two memories contain different values, with these values."""
    usual = Search(gate=0.0, misspelt=False)
    questions = [case.question for case in cases]
    found = zip(cases, *(each.find(questions, usual, as_of=as_of) for each in (one, other)), strict=True)
    result = [(case.fact.subject_label, _values(first, case), _values(second, case)) for case, first, second in found]
    return [each for each in result if each[1] != each[2]]


def _values(finding: Finding, case: Case) -> list[str]:
    rows = {row.row: row for path in finding.paths for row in path.rows}.values()
    own = [row for row in rows if (row.subject, row.relation) == (case.fact.subject, case.fact.property)]
    return sorted(value.label for row in own for value in row.values)
