"""The naive difference: facts that only the older snapshot has, only the newer, or both (WikiFactDiff, section 4.1).

Facts are compared by value; qualifiers do not count, but both sides' are kept. If one snapshot has a value twice
(a second term of office), statements are paired by similarity, most similar first.

An entity is new (section 4.2) if the older snapshot lacks it entirely, before any filtering, and its earliest date of
creation is in (older, newer]. A date that may be on either side of a bound makes no entity new.
"""

from __future__ import annotations

import datetime

import duckdb

from kgedit.store.schemas import TIME_FIELDS
from kgedit.timesteps.profiles import Behaviour
from kgedit.timesteps.wikifactdiff.workspace import count_rows
from kgedit.wikidata.ids import CREATION_DATES
from kgedit.wikidata.times import day_number

VALUE = ("object", "value_type", "value", "unit", "language", "precision", "calendar", "term")
"""Columns of a fact's value: an entity, or a literal; and the id of either."""

_TIMES = [f"{field}_{part}" for field in TIME_FIELDS for part in ("time", "precision", "first", "until")]

_LIKENESS: tuple[tuple[str, ...], ...] = (
    ("term", "statement_id"),
    ("term", "start_time", "end_time", "point_time"),
    ("term", "start_time"),
    ("term", "end_time"),
    ("term",),
)
"""Columns in which two statements of a subject and property must agree to be one fact, strictest first."""


def compare(workspace: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Create ``fact``: one row for each fact of old_kept and new_kept.

    Columns: subject, property, term, the value as the newest snapshot writes it, ``side`` (old, new or both),
    ``refined`` (a date that only became more or less precise), the statement and times of either side
    (old_..., new_...).

    Returns:
        Number of facts in the older snapshot only, in the newer only, in both, and how many of these were refined.
    """
    for side in ("old", "new"):
        workspace.execute(
            f"CREATE TABLE {side}_left AS SELECT row_number() OVER (ORDER BY subject, property, term, statement_id) "
            f"AS number, * FROM {side}_kept"
        )
    workspace.execute("CREATE TABLE pair (old_number BIGINT, new_number BIGINT, refined BOOLEAN)")
    for columns in _LIKENESS:
        _pair(workspace, " AND ".join(f"o.{name} IS NOT DISTINCT FROM n.{name}" for name in columns), columns)
    _pair_refined(workspace)
    workspace.execute(_FACTS)
    return {
        "only in the older": count_rows(workspace, "fact WHERE side = 'old'"),
        "only in the newer": count_rows(workspace, "fact WHERE side = 'new'"),
        "in both": count_rows(workspace, "fact WHERE side = 'both'"),
        "in both, date refined": count_rows(workspace, "fact WHERE refined"),
    }


def _pair(workspace: duckdb.DuckDBPyConnection, alike: str, columns: tuple[str, ...]) -> None:
    own = ", ".join(("subject", "property", *columns))
    numbered = (
        f"SELECT *, row_number() OVER (PARTITION BY {own} ORDER BY number) AS nth FROM {{0}}_left "
        "WHERE number NOT IN (SELECT {0}_number FROM pair)"
    )
    workspace.execute(
        f"""
        INSERT INTO pair
        WITH o AS ({numbered.format("old")}), n AS ({numbered.format("new")})
        SELECT o.number, n.number, false
        FROM o JOIN n ON o.subject = n.subject AND o.property = n.property AND o.nth = n.nth AND {alike}
        """
    )


def _pair_refined(workspace: duckdb.DuckDBPyConnection) -> None:
    """Pair dates of one calendar if one contains the other: 2021 and 12 March 2021 are not a change."""
    workspace.execute(
        """
        INSERT INTO pair
        WITH o AS (SELECT l.*, m.first, m.until FROM old_left l JOIN moment m USING (value, precision)
                   WHERE value_type = 'time' AND number NOT IN (SELECT old_number FROM pair)),
             n AS (SELECT l.*, m.first, m.until FROM new_left l JOIN moment m USING (value, precision)
                   WHERE value_type = 'time' AND number NOT IN (SELECT new_number FROM pair)),
        candidate AS (
            SELECT o.number AS old_number, n.number AS new_number FROM o JOIN n USING (subject, property)
            WHERE o.calendar IS NOT DISTINCT FROM n.calendar AND o.precision <> n.precision
              AND ((o.first <= n.first AND n.until <= o.until) OR (n.first <= o.first AND o.until <= n.until))
        )
        SELECT old_number, new_number, true FROM candidate
        QUALIFY row_number() OVER (PARTITION BY old_number ORDER BY new_number) = 1
            AND row_number() OVER (PARTITION BY new_number ORDER BY old_number) = 1
        """
    )


def _sided(side: str) -> str:
    own = ", ".join(f"{side[0]}.{name} AS {side}_{name}" for name in _TIMES)
    return f"{side[0]}.statement_id AS {side}_statement_id, {own}"


_FACTS = f"""
    CREATE TABLE fact AS
    SELECT coalesce(n.subject, o.subject) AS subject, coalesce(n.property, o.property) AS property,
           {", ".join(f"CASE WHEN n.number IS NULL THEN o.{name} ELSE n.{name} END AS {name}" for name in VALUE)},
           CASE WHEN o.number IS NULL THEN 'new' WHEN n.number IS NULL THEN 'old' ELSE 'both' END AS side,
           coalesce(refined, false) AS refined, {_sided("old")}, {_sided("new")}
    FROM old_left o LEFT JOIN pair ON pair.old_number = o.number
    FULL JOIN new_left n ON n.number = pair.new_number
"""


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
        """
    )
    after = day_number(datetime.date(new // 10000, new // 100 % 100, new % 100) + datetime.timedelta(days=1))
    in_window = "first > $old" if behaviour.entities_by_filtered_part else "first > $old AND until <= $after"
    workspace.execute(
        f"CREATE TABLE new_entity AS SELECT id FROM absent_entity WHERE {in_window} AND $after > 0 AND NOT $slice",
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
