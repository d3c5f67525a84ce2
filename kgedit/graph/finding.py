"""Items and properties found by name, and whether the graph holds an item at all."""

from __future__ import annotations

import pyarrow as pa

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query

TERMS = pa.schema([("id", pa.string()), ("label", pa.string()), ("description", pa.string()), ("facts", pa.int64())])
"""The columns of cypher/read/find_terms.cypher, which says what they mean."""


def find_terms(graph: Graph, name: str, *, limit: int) -> pa.Table:
    """Items and properties by label or alias: those with exactly this name first, then those in most facts.

    Args:
        graph: Where they are looked up.
        name: Words that stand together in a label or an alias.
        limit: Most rows.
    """
    parameters = {"name": name, "limit": limit}
    rows = graph.read_only_query(read_query("find_terms").text, parameters, timeout=60)
    return pa.Table.from_pylist(rows, schema=TERMS)


def check_name(name: str) -> None:
    """Refuse a name that the full-text index cannot look up.

    Raises:
        GraphError: if there is no letter or digit in it.
    """
    if not any(letter.isalnum() for letter in name):
        raise GraphError(f"There is no word in {name!r}. Give a label or an alias: kgedit find Germany")


def check_item(graph: Graph, item: str) -> None:
    """Refuse an item that the graph does not hold.

    Raises:
        GraphError: if it is not there.
    """
    if not graph.rows("MATCH (i:Item {id: $item}) RETURN i.id AS id", {"item": item}):
        raise GraphError(f"The graph holds no item {item}. Find one by its name: kgedit find NAME")
