"""The memory of a graph in Neo4j: its facts read page by page, or only those that one question may need.

A question's names are found, and the walks from them fetched, by Cypher (cypher/read/memory_*.cypher). Their wordings
are compared here, as everywhere else: the server has no vectors.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.graph_memory.gate import Gate
from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.intervals import DATED_FACTS, learn_dated_facts, unhinted_names
from kgedit.llm.embeddings import Embedder
from kgedit.wikidata.ids import INSTANCE_OF, SUBCLASS_OF
from kgedit.wikidata.times import day_number
from kgedit.wording.names import name_rules

_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Facts that were read.

    Attributes:
        facts: With the schema DATED_FACTS.
        subjects: As questions name the subjects, with the schema kgedit.timesteps.subjects.SUBJECTS.
        snapshots: Day numbers of those that the graph holds, up to the day.
        as_of: The day.
    """

    facts: pa.Table
    subjects: pa.Table
    snapshots: tuple[int, ...]
    as_of: datetime.date


def read_graph_facts(graph: Graph, *, as_of: datetime.date | None = None, properties: Sequence[str] = ()) -> GraphFacts:
    """All facts between items of a graph.

    Args:
        graph: Open.
        as_of: What was first seen later is left out; None for the newest snapshot.
        properties: Only facts of these; none for all.

    Raises:
        GraphError: if the graph holds no snapshot of that day or before.
    """
    snapshots, newest = _snapshots(graph, as_of)
    read = sorted({*properties, *_showing_classes()}) if properties else ()
    rows = [row for page in _pages(graph, newest, read) for row in page]
    every = pa.Table.from_pylist(rows, schema=DATED_FACTS)
    facts = every.filter(pc.is_in(every["property"], pa.array(properties, pa.string()))) if properties else every
    return GraphFacts(facts, _names_of_subjects(facts, every), snapshots, as_of or _day(newest))


def memory_of_question(
    graph: Graph, question: str, embed: Embedder, *, gate: Gate, as_of: datetime.date | None = None
) -> GraphMemory:
    """A memory of what a question may need: it answers that question as one of the whole graph would.

    Names with a wrong letter are not found.

    Args:
        graph: Open.
        question: In words.
        embed: Computes the vectors of texts.
        gate: Learnt for it.
        as_of: What was first seen later is not known; None for the newest snapshot.

    Raises:
        GraphError: if the graph holds no snapshot of that day or before.
    """
    _, newest = _snapshots(graph, as_of)
    memory = GraphMemory(embed, gate=gate)
    named = _rows(graph, "memory_subjects", {"question": question})
    if named:
        subjects = sorted({row["id"] for row in named})
        rows = _rows(graph, "memory_walk", {"subjects": subjects, "date": newest})
        facts = pa.Table.from_pylist(rows, schema=DATED_FACTS)
        learn_dated_facts(memory, facts, as_of=as_of or _day(newest))
    return memory


def _showing_classes() -> set[str]:
    """Properties that show of which class an item is."""
    return {INSTANCE_OF, SUBCLASS_OF, *(name for names in name_rules().evidence.values() for name in names)}


def _names_of_subjects(facts: pa.Table, every: pa.Table) -> pa.Table:
    """Names of the subjects of some facts, by the classes that facts between items show.

    A class that nothing but a date or a number shows is not seen here, as it is in the store.
    """
    with closing(duckdb.connect()) as connection:
        connection.register("every", every)
        connection.execute(
            """
            CREATE VIEW new_facts AS SELECT subject, property, object FROM every WHERE until IS NULL;
            CREATE VIEW old_facts AS FROM new_facts;
            CREATE VIEW new_entities AS SELECT DISTINCT ON (id) * FROM (
                SELECT subject AS id, subject_label AS label, subject_description AS description, 'item' AS kind
                FROM every UNION ALL SELECT object, object_label, NULL, 'item' FROM every
            ) ORDER BY id, description NULLS LAST;
            """
        )
        return unhinted_names(connection, facts)


def _pages(graph: Graph, newest: int, properties: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    after = ""
    while rows := _rows(graph, "memory_facts", {"date": newest, "after": after, "properties": list(properties)}):
        after = rows[-1]["subject"]
        yield rows


def _rows(graph: Graph, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    query = read_query(name)
    return graph.read_only_query(query.text, query.bind(parameters), timeout=_TIMEOUT)


def _snapshots(graph: Graph, as_of: datetime.date | None) -> tuple[tuple[int, ...], int]:
    held = tuple(day for day in sorted(graph.snapshot_dates()) if as_of is None or day <= day_number(as_of))
    if not held:
        when = "" if as_of is None else f" of {as_of} or before"
        raise GraphError(f"The graph holds no snapshot{when}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
    return held, held[-1]


def _day(number: int) -> datetime.date:
    return datetime.date(number // 10_000, number // 100 % 100, number % 100)
