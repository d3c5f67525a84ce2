"""Facts of a graph in Neo4j for a memory, page by page (cypher/read/memory_facts.cypher)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.graph_memory.intervals import DATED_FACTS, unhinted_names
from kgedit.store.engine import open_in_memory
from kgedit.wikidata.ids import INSTANCE_OF, SUBCLASS_OF
from kgedit.wikidata.times import day_number
from kgedit.wording.names import name_rules

_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Facts read from a graph.

    Attributes:
        facts: Table with the schema DATED_FACTS.
        subjects: Names of the subjects in questions, with the schema kgedit.timesteps.labels.SUBJECTS.
        snapshots: Day numbers of the graph's snapshots up to `as_of`.
        as_of: Last day.
    """

    facts: pa.Table
    subjects: pa.Table
    snapshots: tuple[int, ...]
    as_of: datetime.date


def read_graph_facts(graph: Graph, *, as_of: datetime.date | None = None, properties: Sequence[str] = ()) -> GraphFacts:
    """Read all facts between items of a graph.

    Args:
        graph: An open graph.
        as_of: Facts first seen after this day are excluded; None means the day of the newest snapshot.
        properties: Properties to read; empty means all.

    Raises:
        GraphError: if no snapshot of the graph is dated on or before that day.
    """
    snapshots, newest = _snapshots(graph, as_of)
    read = sorted({*properties, *_showing_classes()}) if properties else ()
    rows = [row for page in _pages(graph, newest, read) for row in page]
    every = pa.Table.from_pylist(rows, schema=DATED_FACTS)
    facts = every.filter(pc.is_in(every["property"], pa.array(properties, pa.string()))) if properties else every
    return GraphFacts(facts, _names_of_subjects(facts, every), snapshots, as_of or _day(newest))


def _showing_classes() -> set[str]:
    """Properties that indicate the class of an item."""
    return {INSTANCE_OF, SUBCLASS_OF, *(name for names in name_rules().evidence.values() for name in names)}


def _names_of_subjects(facts: pa.Table, every: pa.Table) -> pa.Table:
    """Names of the subjects of some facts, by the classes that facts between items indicate.

    Unlike in the store, a class that only dates or numbers indicate is not found.
    """
    with closing(open_in_memory()) as connection:
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
        raise GraphError(f"The graph contains no snapshot{when}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
    return held, held[-1]


def _day(number: int) -> datetime.date:
    return datetime.date(number // 10_000, number // 100 % 100, number % 100)
