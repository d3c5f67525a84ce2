"""The neighbourhood of one item in a snapshot, as tables and as a networkx graph; and cycles of a snapshot's classes.

Contains current facts only. The file of facts is read once for each step, and that of claims once for their ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.store.closures import list_cycles
from kgedit.store.engine import literal, open_engine, select
from kgedit.store.facts import KIND, with_statement_ids
from kgedit.store.snapshots import Snapshot

if TYPE_CHECKING:
    import networkx as nx
    import pyarrow as pa


_MEMORY = "1GB"

SUBGRAPH_FACTS = pa.schema(
    [
        ("subject", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("property_label", pa.string()),
        ("rank", pa.string()),
        ("statement_id", pa.string()),
        ("start", pa.string()),  # the times are texts at their precision
        ("end", pa.string()),
        ("point_in_time", pa.string()),
    ]
)
"""One row per fact."""

SUBGRAPH_TERMS = pa.schema(
    [
        ("id", pa.string()),
        ("distance", pa.int64()),  # steps from the item
        ("kind", pa.string()),  # item, property, value or other
        ("label", pa.string()),  # the text, for a literal
        ("description", pa.string()),
        ("redirect_target", pa.string()),  # set for an entity that was merged into another one
        ("value_type", pa.string()),  # set for a literal, like the following columns
        ("unit", pa.string()),
        ("language", pa.string()),
        ("precision", pa.string()),
        ("calendar", pa.string()),
    ]
)
"""One row per entity or literal; an entity that the snapshot does not describe has only its id."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Facts (SUBGRAPH_FACTS) and terms (SUBGRAPH_TERMS), in the order of their ids."""

    facts: pa.Table
    terms: pa.Table


def read_subgraph(
    snapshot: Snapshot, item: str, *, depth: int, incoming: bool, max_facts: int, spill: Path
) -> Subgraph:
    """Read every fact on a path of at most `depth` steps from an item.

    Args:
        snapshot: Snapshot in which the facts are current.
        item: Id of an item or a property.
        depth: Maximum number of steps; 0 returns the item alone.
        incoming: Whether paths also lead from an object to its subjects, of which a country has thousands.
        max_facts: Maximum number of facts.
        spill: Spill folder.

    Raises:
        StoreError: if the snapshot lacks the item, or more than `max_facts` facts are found.
    """
    if depth < 0:
        raise StoreError(f"A depth of {depth} is not possible. Give a depth of 0 or more.")
    facts, entities = literal(snapshot.facts), literal(snapshot.entities)
    with open_engine(spill, memory=_MEMORY) as connection:
        _check_item(connection, entities, item, snapshot.name)
        connection.execute("CREATE TABLE near AS SELECT $item AS id, 0 AS distance", {"item": item})
        connection.execute(f"CREATE TABLE walked AS SELECT * FROM {facts} LIMIT 0")
        for step in range(depth):
            _walk(connection, facts, step, incoming=incoming)
            found = connection.execute("SELECT count(*) FROM walked").fetchall()[0][0]
            if found > max_facts:
                raise StoreError(
                    f"{found:,} facts lie within {step + 1} steps of {item}, more than {max_facts:,}. "
                    "Give a smaller depth, leave out incoming, or raise max_facts."
                )
        walked = with_statement_ids("walked", literal(snapshot.claims))
        return Subgraph(
            select(_FACTS.format(entities=entities, walked=walked), connection=connection).cast(SUBGRAPH_FACTS),
            select(_TERMS.format(entities=entities), connection=connection).cast(SUBGRAPH_TERMS),
        )


def _check_item(connection: duckdb.DuckDBPyConnection, entities: str, item: str, date: str) -> None:
    query = f"SELECT redirect_target FROM {entities} WHERE id = $item"
    found = connection.execute(query, {"item": item}).fetchone()
    if found is None:
        raise StoreError(f"The snapshot of {date} has no {item}. Find an item by its name: kgedit find NAME")
    if found[0] is not None:
        raise StoreError(f"{item} was merged into {found[0]} by {date}. Ask for {found[0]}.")


def _walk(connection: duckdb.DuckDBPyConnection, facts: str, step: int, *, incoming: bool) -> None:
    """Take one step from the terms that were reached last: adds rows to ``walked`` and ``near``."""
    last = f"(SELECT id FROM near WHERE distance = {step})"
    met = f"subject IN {last} OR object IN {last}" if incoming else f"subject IN {last}"
    connection.execute(
        f"""
        INSERT INTO walked SELECT * FROM {facts} f WHERE ({met})
            AND (subject, property, object) NOT IN (SELECT (subject, property, object) FROM walked)
        """
    )
    connection.execute(
        f"""
        INSERT INTO near
        SELECT id, {step + 1} FROM (SELECT subject AS id FROM walked UNION SELECT object FROM walked)
        ANTI JOIN near USING (id)
        """
    )


_FACTS = """
    SELECT subject, property, object, e.label AS property_label, rank, statement_id, start_time AS start,
           end_time AS "end", point_time AS point_in_time
    FROM ({walked}) LEFT JOIN {entities} e ON e.id = property ORDER BY subject, property, object
"""

_TERMS = f"""
    WITH literal AS (
        SELECT object AS id, any_value(value) AS value, any_value(value_type) AS value_type, any_value(unit) AS unit,
               any_value(language) AS language, any_value(precision) AS precision, any_value(calendar) AS calendar
        FROM walked WHERE kind = 'value' GROUP BY object
    )
    SELECT id, distance, {KIND.format(id="id")} AS kind, coalesce(nullif(e.label, id), literal.value) AS label,
           e.description, e.redirect_target, value_type, unit, language, precision, calendar
    FROM near LEFT JOIN {{entities}} e USING (id) LEFT JOIN literal USING (id)
    ORDER BY id
"""


def subgraph(snapshot: Snapshot, item: str, *, depth: int, incoming: bool, max_facts: int) -> nx.MultiDiGraph:
    """Neighbourhood of an item; see kgedit.Home.subgraph."""
    import networkx as nx

    with TemporaryDirectory() as spill:
        found = read_subgraph(
            snapshot, item, depth=depth, incoming=incoming, max_facts=max_facts, spill=Path(spill) / "spill"
        )
    graph = nx.MultiDiGraph(snapshot=snapshot.name, item=item, depth=depth, incoming=incoming)
    for term in found.terms.to_pylist():
        graph.add_node(term.pop("id"), **_known(term))
    for fact in found.facts.to_pylist():
        subject, target = fact.pop("subject"), fact.pop("object")
        graph.add_edge(subject, target, key=fact["property"], **_known(fact))
    return graph


def cycles(snapshot: Snapshot) -> pa.Table:
    """Cycles of a snapshot's classes and containers; see kgedit.Home.cycles."""
    with TemporaryDirectory() as spill:
        return list_cycles(snapshot, spill=Path(spill) / "spill")


def _known(attributes: dict[str, object]) -> dict[str, object]:
    """Attributes that are not null; formats such as GraphML have no null."""
    return {name: value for name, value in attributes.items() if value is not None}
