"""Captions of FACT edges in Neo4j Browser: the property's label and the years in which the fact held.

Years come from the statement. Without them, the caption shows when the fact was *seen*, because the first snapshot with
a fact is not its start. A fact of the oldest snapshot without dates has the property's label only, because its start is
unknown.
"""

from __future__ import annotations


def _year(time: str) -> str:
    """SQL for the year of an ISO time text ("2021-03" -> 2021, "-0044" -> 44 BC); NULL for NULL."""
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
    """SQL for the years of a current fact; NULL without a start or point in time."""
    return f"coalesce(', since ' || {_START}, ', in ' || {_POINT})"


def ended(until: str) -> str:
    """SQL for the years of a fact that is no longer current; NULL if the statement has no dates.

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
    """SQL for current facts without dates: the month of the first snapshot with the fact, or "" if it is the oldest."""
    return f"CASE WHEN {since} = {first} THEN '' ELSE ', seen since ' || {month(since)} END"


def seen_between(since: str, until: str) -> str:
    """SQL for ended facts without dates: the months between which the fact was seen."""
    return f"', seen ' || {month(since)} || ' to ' || {month(until)}"
