"""As-of projections: the state of an earlier day, derived from the dates in one dump.

A projection shows what the dump's editors know about that day, not what Wikidata contained then: it has no late entries
and no vandalism, and it lacks undated changes. Every difference between two projections rests on a date, so a statement
without dates holds on every day. PLACEMENTS lists the rules for each statement; docs/how-to/streams.md explains them.

Dates of lower precision than a day are read as in the dump's own snapshot (kgedit.store.facts): undecided statements
stay. "2005" has begun on its first possible day, 1 January 2005, as a start, a founding or a death, and has passed on
1 January 2006 as an end. In the year of a handover "in 2005" both holders are therefore current, and no question is
generated about it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.facts import with_places
from kgedit.wikidata.ids import CREATION_DATES, END_DATES, END_TIME, TRUE_SINCE_THE_END
from kgedit.wikidata.times import DAY, MONTH


@dataclass(frozen=True, slots=True)
class StatementRule:
    """Rule that decides whether a projection contains a statement.

    Attributes:
        reason: Reason as recorded in the manifest.
        condition: SQL condition; $date is the day. NULL counts as false.
        stays: Whether the projection contains the statement. Ended statements stay too, as evidence.
        placed: Whether dates decide the placement; otherwise it is a convention.
    """

    reason: str
    condition: str
    stays: bool
    placed: bool


PLACEMENTS: tuple[StatementRule, ...] = (
    StatementRule("its item came into being later", "subject_comes > $date", stays=False, placed=True),
    StatementRule("begins later", "since_first > $date", stays=False, placed=True),
    StatementRule("its value is a later date", "value_comes > $date", stays=False, placed=True),
    StatementRule(
        "came with the end of its item, which is later",
        f"property IN {TRUE_SINCE_THE_END} AND item_ends > $date",
        stays=False,
        placed=True,
    ),
    StatementRule(
        "no start, and its object came into being later",
        "since_precision IS NULL AND object_comes > $date",
        stays=False,
        placed=True,
    ),
    StatementRule("ended at an unknown time: no fact on any day", "end_precision = -1", stays=True, placed=False),
    StatementRule("had ended, or ends that day", "end_until <= $date OR end_is_today", stays=True, placed=True),
    StatementRule("ends in a span of time that holds the day", "end_first <= $date", stays=True, placed=False),
    StatementRule(
        "begins in a span of time that holds the day",
        f"since_precision < {DAY} AND since_until > $date",
        stays=True,
        placed=False,
    ),
    StatementRule("holds, and began at an unknown time", "since_precision = -1", stays=True, placed=False),
    StatementRule("holds since its start or point in time", "since_precision IS NOT NULL", stays=True, placed=True),
    StatementRule("holds until its end, and has no start", "end_precision IS NOT NULL", stays=True, placed=False),
    StatementRule("no dates: holds on every day", "true", stays=True, placed=False),
)
"""The first rule whose condition holds decides. "Since" is the start time, or the point in time without one."""

PLACES = tuple(placement.reason for placement in PLACEMENTS)

_YEAR = r"try_cast(regexp_extract(value, '^(\d+)', 1) AS BIGINT)"
_MONTH = r"try_cast(regexp_extract(value, '-(\d\d)$', 1) AS BIGINT)"
_PRECISION = "try_cast(precision AS INTEGER)"
_SPAN = f"try_cast(10 ** (9 - {_PRECISION}) AS BIGINT)"
_COUNTED_FROM = f"CASE WHEN {_PRECISION} < 8 THEN 1 ELSE 0 END"

VALUE_COMES = f"""
    CASE WHEN datatype <> 'time' OR value IS NULL THEN NULL
         WHEN value[1] = '-' THEN 0
         WHEN {_PRECISION} >= {DAY} THEN try_cast(replace(value, '-', '') AS BIGINT)
         WHEN {_PRECISION} = {MONTH} THEN {_YEAR} * 10000 + {_MONTH} * 100 + 1
         ELSE (({_YEAR} - ({_COUNTED_FROM})) // {_SPAN} * {_SPAN} + ({_COUNTED_FROM})) * 10000 + 101
    END
"""
"""First day that a claim's date may refer to, as a day number; 0 for a date BC."""

LATER_ITEMS = pa.schema([("id", pa.string()), ("comes", pa.int64())])
"""Items that came into being after a day, with the first day on which they may have."""

_BEGUN = f"""
    SELECT subject AS id, min({VALUE_COMES}) AS comes FROM {{claims}}
    WHERE property IN {CREATION_DATES} AND subject[1] = 'Q' AND rank <> 'deprecated' AND snak = 'value'
    GROUP BY subject HAVING min({VALUE_COMES}) > $first ORDER BY id
"""

_CASES = " ".join(f"WHEN {placement.condition} THEN {place}" for place, placement in enumerate(PLACEMENTS))
_ENDS_LATER = "(end_first > $date)"

_PLACED = f"""
    WITH known AS (
        SELECT c.*, s.comes AS subject_comes, o.comes AS object_comes, {VALUE_COMES} AS value_comes,
               coalesce(end_precision = {DAY} AND end_first = $date, false) AS end_is_today,
               {
    ", ".join(
        f"CASE WHEN start_precision IS NULL THEN point_{part} ELSE start_{part} END AS since_{part}"
        for part in ("precision", "first", "until")
    )
}
        FROM claims c LEFT JOIN begun_item s ON s.id = c.subject LEFT JOIN begun_item o ON o.id = c.object
    ), ended AS (
        SELECT *, min(value_comes) FILTER (property IN {END_DATES} AND rank <> 'deprecated')
                  OVER (PARTITION BY subject) AS item_ends
        FROM known
    )
    SELECT * EXCLUDE (subject_comes, object_comes, value_comes, end_is_today, item_ends,
                       since_precision, since_first, since_until)
           REPLACE (
               CASE WHEN {_ENDS_LATER} THEN NULL ELSE end_time END AS end_time,
               CASE WHEN {_ENDS_LATER} THEN NULL ELSE end_precision END AS end_precision,
               CASE WHEN {_ENDS_LATER} THEN NULL ELSE end_first END AS end_first,
               CASE WHEN {_ENDS_LATER} THEN NULL ELSE end_until END AS end_until,
               CASE WHEN {_ENDS_LATER} THEN list_filter(qualifier_properties, lambda name: name <> '{END_TIME}')
                    ELSE qualifier_properties END AS qualifier_properties,
               CASE WHEN {_ENDS_LATER} THEN ~version ELSE version END AS version),
           CASE {_CASES} END AS placement
    FROM ended ORDER BY place
"""
"""An end that is certainly after the day is removed, because it was not known then. Inverting ``version``
marks the shortened statement as another version."""


@dataclass(frozen=True, slots=True)
class ProjectedEntities:
    """Entities with all their claims, as of a day.

    Attributes:
        claims: Claims of the projection, in the given order and with the given columns.
        entities: Entities that existed on the day, in the given order.
        placements: Number of statements by rule (PLACES), including those left out.
    """

    claims: pa.Table
    entities: pa.Table
    placements: Counter[str]


def find_later_items(connection: duckdb.DuckDBPyConnection, claims: str, *, first: int) -> pa.Table:
    """Items that may not have existed on the first day (LATER_ITEMS).

    An item begins on the earliest of its creation dates (WikiFactDiff, section 4.2).

    Args:
        connection: Connection to use.
        claims: SQL of all claims of a dump, in parentheses.
        first: Day number of the first projection.
    """
    found: pa.Table = connection.sql(_BEGUN.format(claims=claims), params={"first": first}).to_arrow_table()
    return found.cast(LATER_ITEMS)


def project(
    connection: duckdb.DuckDBPyConnection, claims: pa.Table, entities: pa.Table, *, date: int
) -> ProjectedEntities:
    """Project entities with all their claims to a day.

    Args:
        connection: Connection in which the result of `find_later_items` is ``begun_item``; no other tables are left in
            it.
        claims: Rows of a snapshot's claims (kgedit.store.schemas.CLAIMS_JUDGED).
        entities: Rows with the schema ENTITIES.
        date: Day number.
    """
    connection.register("claims", with_places(claims))
    connection.register("entities", with_places(entities))
    try:
        judged = connection.sql(_PLACED, params={"date": date}).to_arrow_table()
        begun = connection.sql(
            "SELECT e.* FROM entities e ANTI JOIN (FROM begun_item WHERE comes > $date) USING (id) ORDER BY place",
            params={"date": date},
        ).to_arrow_table()
    finally:
        connection.unregister("claims")
        connection.unregister("entities")
    counts = {row["values"]: row["counts"] for row in pc.value_counts(judged["placement"]).to_pylist()}
    staying = pa.array([place for place, placement in enumerate(PLACEMENTS) if placement.stays])
    kept = judged.filter(pc.is_in(judged["placement"], value_set=staying.cast(judged["placement"].type)))
    return ProjectedEntities(
        claims=kept.select(claims.schema.names).cast(claims.schema),
        entities=begun.select(entities.schema.names).cast(entities.schema),
        placements=Counter({PLACES[place]: count for place, count in counts.items()}),
    )
