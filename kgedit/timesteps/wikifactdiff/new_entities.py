"""Entities created in the window (WikiFactDiff, section 4.2).

An entity is new if the older snapshot lacks it entirely, before any filtering, and its earliest date of creation is in
(older, newer]. A date that may be on either side of a bound makes no entity new.
"""

from __future__ import annotations

import datetime

import duckdb

from kgedit.timesteps.wikifactdiff.compat import Behaviour
from kgedit.timesteps.wikifactdiff.workspace import count_rows
from kgedit.wikidata.ids import CREATION_DATES
from kgedit.wikidata.times import day_number


def find_new_entities(
    workspace: duckdb.DuckDBPyConnection,
    behaviour: Behaviour,
    *,
    old: int,
    new: int,
    older_is_slice: bool = False,
) -> dict[str, int]:
    """Create ``new_entity`` (id) and ``created_entities``, with their dates of creation, from new_kept.

    Args:
        workspace: Workspace with known, old_kept, new_kept and moment.
        behaviour: Behaviour of the released code, or the paper's.
        old: Day number of the older snapshot.
        new: Day number of the newer snapshot.
        older_is_slice: Whether the older snapshot contains only chosen items. Items that it lacks may be old, so
            nothing is new, and facts of subjects that only the newer snapshot has are removed from new_kept.

    Returns:
        Number of items that only the newer snapshot has and that have statements left, by their dates of creation.
    """
    workspace.execute(_ABSENT_FROM_FILTERED if behaviour.entities_by_filtered_part else _ABSENT)
    order = "property_place, publication, place" if behaviour.entities_by_filtered_part else "first, until"
    # Of dates on the same day, the relation that comes first in the paper's list.
    order += f", list_position({list(CREATION_DATES)}, property), created"
    workspace.execute(
        f"""
        CREATE TABLE absent_entity AS
        WITH dated AS (
            SELECT k.subject AS id, k.property, k.value AS created, m.first, m.until, k.place,
                   min(k.place) OVER (PARTITION BY k.subject, k.property) AS property_place,
                   CASE WHEN k.property = 'P577' THEN m.first END AS publication
            FROM new_kept k JOIN moment m USING (value, precision)
            WHERE k.value_type = 'time' AND k.property IN {CREATION_DATES}
        ), created AS (
            SELECT DISTINCT ON (id) id, first, until, property, created FROM dated ORDER BY id, {order}
        )
        SELECT id, first, until, property, created FROM absent LEFT JOIN created USING (id)
        """  # noqa: S608 - our own names
    )
    after = day_number(datetime.date(new // 10000, new // 100 % 100, new % 100) + datetime.timedelta(days=1))
    in_window = "first > $old" if behaviour.entities_by_filtered_part else "first > $old AND until <= $after"
    workspace.execute(
        f"CREATE TABLE new_entity AS SELECT id FROM absent_entity WHERE {in_window} AND $after > 0 AND NOT $slice",  # noqa: S608 - our own names
        {"old": old, "after": after, "slice": older_is_slice},
    )
    workspace.execute(_CREATED_ENTITIES)
    absent = count_rows(workspace, "absent_entity")
    if older_is_slice:
        # Values of such an item on the older day are unknown, so none of its current values can be called added.
        workspace.execute("DELETE FROM new_kept WHERE subject IN (SELECT id FROM absent_entity)")
    undated = count_rows(workspace, "absent_entity WHERE first IS NULL")
    found = count_rows(workspace, "new_entity")
    return {
        "only in the newer snapshot": absent,
        "without a date of creation": undated,
        "created at another time, or perhaps": absent - undated - found,
        "new": found,
    }


_CREATED_ENTITIES = """
    CREATE TABLE created_entities AS
    SELECT id, e.label, e.description, created, property, p.label AS property_label
    FROM absent_entity SEMI JOIN new_entity USING (id)
    LEFT JOIN (SELECT id, label, description FROM known) e USING (id)
    LEFT JOIN (SELECT id AS property, label FROM known) p USING (property)
"""

_ABSENT = """
    CREATE TABLE absent AS
    SELECT DISTINCT subject AS id FROM new_kept
    WHERE subject NOT IN (SELECT id FROM old_entities)
      AND subject NOT IN (SELECT target FROM redirect SEMI JOIN old_entities USING (id))
"""
"""An item that an item of the older snapshot was merged into is not new."""

_ABSENT_FROM_FILTERED = (
    "CREATE TABLE absent AS SELECT DISTINCT subject AS id FROM new_kept ANTI JOIN old_kept USING (subject)"
)
