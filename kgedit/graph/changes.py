"""Changes between two snapshots of the graph, as a table."""

from __future__ import annotations

import pyarrow as pa

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
    return graph.table(read_query("changed_edges").text, {"from": older, "to": newer}).cast(CHANGED_EDGES)
