"""What a FACT edge says in Neo4j Browser: the property's name and the years for which the fact held.

Years are the statement's own. Where it has none the caption says when the fact was *seen*: first seen is not the same
as begun. A fact of the oldest snapshot without dates has its property's name alone, because nothing is known of when
it began.
"""

from __future__ import annotations


def _year(time: str) -> str:
    """SQL for the year of a time's text ("2021-03" -> 2021, "-0044" -> 44 BC); null for null."""
    digits = f"regexp_extract({time}, '^-?(\\d+)', 1)::BIGINT"
    return f"({digits} || CASE WHEN {time}[1] = '-' THEN ' BC' ELSE '' END)"


def month(date: str) -> str:
    """SQL for the month of a day number.

    >>> import duckdb
    >>> duckdb.sql("SELECT " + month("20210104")).fetchone()
    ('2021-01',)
    """
    return f"(({date}) // 10000 || '-' || lpad((({date}) // 100 % 100)::VARCHAR, 2, '0'))"


_START, _END, _POINT = _year("start_time"), _year("end_time"), _year("point_in_time")


def lasting() -> str:
    """SQL for the years of a fact that is still current; null where only `since` can tell."""
    return f"coalesce(', since ' || {_START}, ', in ' || {_POINT})"


def ended(until: str) -> str:
    """SQL for the years of a fact that is current no more; null where only `since` can tell.

    Args:
        until: SQL of the day number of the first snapshot without it.
    """
    return f"""CASE
        WHEN start_time IS NOT NULL AND end_time IS NOT NULL THEN
            ', ' || {_START} || CASE WHEN {_START} = {_END} THEN '' ELSE '–' || {_END} END
        WHEN start_time IS NOT NULL THEN ', since ' || {_START} || ', seen until ' || {month(until)}
        WHEN end_time IS NOT NULL THEN ', until ' || {_END}
        WHEN point_in_time IS NOT NULL THEN ', in ' || {_POINT} || ', seen until ' || {month(until)} END"""


def seen(since: str, *, first: int) -> str:
    """SQL for the rest: when a lasting fact without dates was first seen; nothing if that is the oldest snapshot."""
    return f"CASE WHEN {since} = {first} THEN '' ELSE ', seen since ' || {month(since)} END"


def seen_between(since: str, until: str) -> str:
    """SQL for the rest: between which snapshots an ended fact without dates was seen."""
    return f"', seen ' || {month(since)} || ' to ' || {month(until)}"
