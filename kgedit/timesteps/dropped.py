"""dropped.parquet: changes that became no case, each with the reason.

It is stored with the tables of a timestep but is not part of the benchmark: no question is made from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.store.engine import select
from kgedit.timesteps.funnel import Filtered
from kgedit.timesteps.timestep import Timestep

_STRINGS = pa.list_(pa.string())

DROPPED = pa.schema(
    [
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("property", pa.string()),
        ("property_label", pa.string()),
        ("old_objects", _STRINGS),
        ("old_labels", _STRINGS),
        ("new_objects", _STRINGS),
        ("new_labels", _STRINGS),
        ("reason", pa.string()),
    ]
)
"""One row per dropped subject and property. Labels are in the order of objects, null without a label (a literal, or an
item without a label in the requested languages). reason: a reason of the funnel in timestep.json."""


def dropped_changes(changes: pa.Table, labels: pa.Table, parts: Sequence[Filtered]) -> pa.Table:
    """List every dropped change with labels and its reason.

    Args:
        changes: Columns subject, property, old_objects and new_objects: the input of the first filter.
        labels: From kgedit.timesteps.labels.read_labels.
        parts: Results of the filters, in order.

    Returns:
        A table with the schema DROPPED, ordered by subject and property.
    """
    reasons = pa.concat_tables([part.dropped.select(["subject", "property", "reason"]) for part in parts])
    return select(
        """
        WITH dropped AS (
            SELECT subject, property, old_objects, new_objects, reason
            FROM changes JOIN reasons USING (subject, property)
        ), old_label AS (
            SELECT subject, property, list(coalesce(old_label, label) ORDER BY place) AS old_labels
            FROM (SELECT subject, property, unnest(old_objects) AS id, generate_subscripts(old_objects, 1) AS place
                  FROM dropped)
            LEFT JOIN labels USING (id) GROUP BY ALL
        ), new_label AS (
            SELECT subject, property, list(label ORDER BY place) AS new_labels
            FROM (SELECT subject, property, unnest(new_objects) AS id, generate_subscripts(new_objects, 1) AS place
                  FROM dropped)
            LEFT JOIN labels USING (id) GROUP BY ALL
        )
        SELECT subject, coalesce(s.label, s.old_label) AS subject_label, property, p.label AS property_label,
               old_objects, coalesce(old_labels, []) AS old_labels,
               new_objects, coalesce(new_labels, []) AS new_labels, reason
        FROM dropped LEFT JOIN old_label USING (subject, property) LEFT JOIN new_label USING (subject, property)
        LEFT JOIN labels s ON s.id = subject LEFT JOIN labels p ON p.id = property
        ORDER BY subject, property
        """,
        changes=changes,
        labels=labels,
        reasons=reasons,
    ).cast(DROPPED)


def read_dropped(timestep: Timestep) -> pa.Table | None:
    """Read the dropped changes; None if the export is from an earlier version of kgedit, which did not store them."""
    path = timestep.folder / "dropped.parquet"
    return pq.read_table(path, schema=DROPPED) if path.is_file() else None
