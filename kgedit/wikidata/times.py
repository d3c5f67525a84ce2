"""Wikidata times as half-open intervals of days, without invented precision.

A day is the integer year * 10000 + month * 100 + day, which sorts correctly for all years, including negative ones.
The year 2021 is [20210101, 20220101), not 1 January. A Julian day is not converted, because the data is not reliable
enough about its calendar. https://www.wikidata.org/wiki/Help:Dates
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from typing import NamedTuple

DAY, MONTH, YEAR, DECADE = 11, 10, 9, 8
UNKNOWN_VALUE = -1
"""Used as precision: the time exists but is unknown (Wikidata's somevalue)."""

OPEN_END = 99991231
"""End of an interval of snapshots that has not ended; a number, because MERGE does not accept null."""

# Fourteen digits of year fit in 64 bits together with month and day. The universe is younger.
_TIME = re.compile(r"([+-]?)0*(\d{1,14})-(\d\d)-(\d\d)(?:T.*)?")


class Time(NamedTuple):
    """A time as stated, and the days to which it may refer.

    Attributes:
        text: ISO text truncated to its precision ("2021", "2021-03", "-0044-03-15"); None if unknown.
        precision: Wikidata's number (11 day, 10 month, 9 year, ... 0), or UNKNOWN_VALUE.
        first: First day of the interval; None if unknown.
        until: First day after it; None if unknown.
    """

    text: str | None
    precision: int
    first: int | None
    until: int | None


UNKNOWN_TIME = Time(None, UNKNOWN_VALUE, None, None)


def day_number(day: date) -> int:
    """Integer that represents a day.

    >>> day_number(date(2021, 1, 4))
    20210104
    """
    return day.year * 10000 + day.month * 100 + day.day


@lru_cache(maxsize=65536)
def parse_time(text: str, precision: int) -> Time:
    """Parse a Wikidata timestamp with its precision.

    A month or day of 00 reduces the precision accordingly.

    Raises:
        ValueError: if it is not a Wikidata timestamp.
    """
    match = _TIME.fullmatch(text)
    if match is None or not 0 <= precision <= 14 or match[3] > "12" or match[4] > "31":
        raise ValueError(f"not a Wikidata time: {text!r} with precision {precision}")
    year = int(match[2]) * (-1 if match[1] == "-" else 1)
    month, day = int(match[3]), int(match[4])
    precision = min(precision, YEAR if not month else MONTH if not day else DAY)
    iso = f"{'-' if year < 0 else ''}{abs(year):04d}"
    if precision == DAY:
        first = year * 10000 + month * 100 + day
        return Time(f"{iso}-{month:02d}-{day:02d}", precision, first, _next_day(year, month, day))
    if precision == MONTH:
        until = _new_year(year + 1) if month == 12 else year * 10000 + (month + 1) * 100 + 1
        return Time(f"{iso}-{month:02d}", precision, year * 10000 + month * 100 + 1, until)
    first_year, last_year = _years(year, precision)
    return Time(iso, precision, _new_year(first_year), _new_year(last_year + 1))


def _next_day(year: int, month: int, day: int) -> int:
    try:
        return day_number(date(year, month, day) + timedelta(days=1))
    except (ValueError, OverflowError):
        # Outside Python's calendar, or a Julian 29 February: any number before the next real day is correct.
        return year * 10000 + month * 100 + day + 1


def _new_year(year: int) -> int:
    return year * 10000 + 101


def _years(year: int, precision: int) -> tuple[int, int]:
    """First and last year of a time. Decades count from 0, centuries and millennia from 1: 2000 is in the 20th century.

    Years BC mirror those after: 44 BC is in the 40s BC (49 to 40) and in the 1st century BC (100 to 1).
    """
    size = 10 ** (YEAR - precision)
    counted_from = 0 if precision >= DECADE else 1
    nearest = (abs(year) - counted_from) // size * size + counted_from
    farthest = nearest + size - 1
    return (-farthest, -nearest) if year < 0 else (nearest, farthest)
