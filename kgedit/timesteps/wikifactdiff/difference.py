"""The naive difference: facts that only the older snapshot has, only the newer, or both (WikiFactDiff, section 4.1).

Facts are compared by value; qualifiers do not count, but both sides' are kept. If one snapshot has a value twice
(a second term of office), statements are paired by similarity, most similar first.
"""

from __future__ import annotations

import duckdb

from kgedit.store.schemas import TIME_FIELDS
from kgedit.timesteps.wikifactdiff.workspace import count_rows

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
            f"CREATE TABLE {side}_left AS SELECT row_number() OVER (ORDER BY subject, property, term, statement_id) "  # noqa: S608 - our own names
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
        f"SELECT *, row_number() OVER (PARTITION BY {own} ORDER BY number) AS nth FROM {{0}}_left "  # noqa: S608 - our own names
        "WHERE number NOT IN (SELECT {0}_number FROM pair)"
    )
    workspace.execute(
        f"""
        INSERT INTO pair
        WITH o AS ({numbered.format("old")}), n AS ({numbered.format("new")})
        SELECT o.number, n.number, false
        FROM o JOIN n ON o.subject = n.subject AND o.property = n.property AND o.nth = n.nth AND {alike}
        """  # noqa: S608 - our own names
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
"""  # noqa: S608 - our own names
