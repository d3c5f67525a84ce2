"""Facts of the older snapshot, which an up-to-date model of that day would know."""

from __future__ import annotations

import pyarrow as pa

from kgedit.store.window import Window
from kgedit.timesteps.engines.protocol import HOPS
from kgedit.timesteps.tables import CHANGED


def choose_known_facts(window: Window, *, limit: int, hops: pa.Table | None = None) -> pa.Table:
    """Choose old answers, then locality facts and hops of chains, then other unchanged facts, with labels of that day.

    Args:
        window: Window with the tables worded_case (kgedit.timesteps.written.write_cases), and probe and static_near
            (kgedit.timesteps.locality.find_locality).
        hops: Columns subject, property and object: unchanged facts of chains; None means none.
        limit: Maximum number of facts; within each kind a hash of subject and property decides.

    Returns:
        Columns of a fact, in the order chosen.
    """
    return window.select(
        f"""
        WITH wanted AS (
            SELECT subject, property, old_objects[1] AS object, 0 AS turn FROM worded_case WHERE len(old_objects) = 1
            UNION ALL SELECT subject, property, object, 1 FROM probe WHERE basis <> '{CHANGED}'
            UNION ALL SELECT subject, property, object, 1 FROM hops
            UNION ALL SELECT subject, property, object, 2 FROM static_near
        ), once AS (
            SELECT subject, property, object, min(turn) AS turn FROM wanted GROUP BY ALL
        ), chosen AS (
            SELECT once.*, s.label AS subject_label, coalesce(p.label, once.property) AS property_label,
                   o.label AS object_label
            FROM once JOIN old_entities s ON s.id = once.subject JOIN old_entities o ON o.id = once.object
            LEFT JOIN old_entities p ON p.id = once.property
            WHERE s.label IS NOT NULL AND o.label IS NOT NULL
            ORDER BY turn, md5(once.subject || once.property), once.object LIMIT $limit
        )
        SELECT * EXCLUDE (turn) FROM chosen ORDER BY turn, subject, property, object
        """,
        {"limit": limit},
        hops=HOPS.empty_table() if hops is None else hops,
    )
