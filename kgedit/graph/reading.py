"""Changes between two snapshots of the graph, and items and properties found by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pyarrow as pa

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query

_STRINGS = pa.list_(pa.string())

CHANGED_EDGES = pa.schema(
    [
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("property", pa.string()),
        ("property_label", pa.string()),
        ("old_objects", _STRINGS),
        ("old_labels", _STRINGS),
        ("new_objects", _STRINGS),
        ("new_labels", _STRINGS),
        ("item_valued", pa.bool_()),
        ("subject_in_old", pa.bool_()),
        ("subject_in_new", pa.bool_()),
    ]
)
"""Columns of cypher/read/changed_edges.cypher, which documents them."""


def changed_edges(graph: Graph, *, older: int, newer: int) -> pa.Table:
    """Query the subjects and properties whose current objects differ, ordered by both.

    Args:
        graph: Graph with both snapshots.
        older: Day number of the older one.
        newer: Day number of the newer one.
    """
    window = {"from": older, "to": newer}
    return graph.table(read_query("changed_edges").text, window, columns=CHANGED_EDGES.names).cast(CHANGED_EDGES)


TERMS = pa.schema([("id", pa.string()), ("label", pa.string()), ("description", pa.string()), ("facts", pa.int64())])
"""Columns of cypher/read/find_terms.cypher, which documents them."""


def find_terms(graph: Graph, name: str, *, limit: int) -> pa.Table:
    """Find items and properties by label or alias: exact matches first, then those with most facts.

    Args:
        graph: Graph to search.
        name: Consecutive words of a label or an alias.
        limit: Maximum number of rows.
    """
    parameters = {"name": name, "limit": limit}
    rows = graph.read_only_query(read_query("find_terms").text, parameters, timeout=60)
    return pa.Table.from_pylist(rows, schema=TERMS)


_MOST_TO_DRAW = 15
"""Maximum number of changed facts of the item that is drawn first; with more, their captions overlap."""


def changes_to_draw(graph: Graph, snapshots: Sequence[int]) -> tuple[str | None, dict[str, str]]:
    """Choose an item with many changes between the last two snapshots.

    Returns:
        Its id and the window, `from` and `to` as YYYY-MM-DD; None and an empty window if there is no such item.
    """
    if len(snapshots) < 2:
        return None, {}
    older, newer = sorted(snapshots)[-2:]
    asked = {"from": older, "to": newer, "most": _MOST_TO_DRAW}
    rows = graph.read_only_query(read_query("most_changed_item").text, asked, timeout=60)
    if not rows:
        return None, {}
    return str(rows[0]["id"]), {name: str(date.fromisoformat(str(asked[name]))) for name in ("from", "to")}


def check_name(name: str) -> None:
    """Refuse a name that the full-text index cannot look up.

    Raises:
        GraphError: if it contains no letter or digit.
    """
    if not any(letter.isalnum() for letter in name):
        raise GraphError(f"There is no word in {name!r}. Give a label or an alias: kgedit find Germany")


def check_item(graph: Graph, item: str) -> None:
    """Refuse an item that the graph does not contain.

    Raises:
        GraphError: if it is missing.
    """
    if not graph.rows("MATCH (i:Item {id: $item}) RETURN i.id AS id", {"item": item}):
        raise GraphError(f"The graph contains no item {item}. Find one by its name: kgedit find NAME")
