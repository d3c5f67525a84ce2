"""Days as users write them, and Wikidata's times as half-open intervals of days, without invented precision."""

from __future__ import annotations

import calendar
import datetime
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
    # Precision 0 is a billion years, 14 a second. Two digits compare as text like numbers.
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


# Year first is unambiguous with any separator; without one, only eight digits are a day.
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})|(\d{4})(\d{2})(\d{2})", re.ASCII)
_YEAR_LAST = re.compile(r"(\d{1,2})[-/. ](\d{1,2})[-/. ](\d{4})", re.ASCII)
_IN_WORDS = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[-. ]*([A-Za-z]{3,9})[-., ]*(\d{4})", re.ASCII)
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})[-., ]*(\d{1,2})(?:st|nd|rd|th)?[-., ]*(\d{4})", re.ASCII)
_WITH_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ]\d.*", re.ASCII)
_NO_DAY = re.compile(r"(\d{4})(?:[-/.](\d{1,2}))?", re.ASCII)

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
"""English in every locale, because kgedit's messages are English too."""


def read_day(text: str) -> datetime.date:
    """Parse a day written year first: 2021-01-04, 20210104, 2021/1/4 or 2021.1.4.

    Raises:
        ValueError: with the reason, and the form to write if the day can be guessed.
    """
    found = _YEAR_FIRST.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a date that kgedit reads. {_advice(text.strip())}")
    year, month, day = (int(number) for number in found.group(1, 3, 4) if number is not None) if found[1] else (
        int(number) for number in found.group(5, 6, 7)
    )  # fmt: skip
    try:
        return datetime.date(year, month, day)
    except ValueError:
        raise ValueError(f"'{text}' is not a date: {_why_impossible(year, month, day)}") from None


def not_before(older: object, newer: object) -> str:
    """Message for two days in the wrong order."""
    advice = "give two different days" if older == newer else "give the older day first"
    return f"{older} is not before {newer}: {advice}."


def _why_impossible(year: int, month: int, day: int) -> str:
    if not 1 <= year <= datetime.MAXYEAR:
        return f"there is no year {year:04}."
    if not 1 <= month <= 12:
        swapped = _as_day(year, day, month)
        return f"there is no month {month}." + (f" Write the month before the day: {swapped}." if swapped else "")
    length = calendar.monthrange(year, month)[1]
    return f"{_MONTHS[month - 1].title()} {year} has {length} days."


def _advice(text: str) -> str:
    """Suggestion of what to write instead."""
    guesses = _guesses(text)
    if guesses:
        return f"Write {' or '.join(guesses)}."
    year_last = _YEAR_LAST.fullmatch(text)
    if year_last:
        day, month, year = map(int, year_last.groups())
        return f"There is no such day: {_why_impossible(year, month, day)}"
    no_day = _NO_DAY.fullmatch(text)
    if no_day:
        missing = "the day" if no_day[2] else "month and day"
        return f"Write {missing} too, such as {no_day[1]}-{int(no_day[2] or 12):02}-01."
    return "Write YYYY-MM-DD, such as 2021-01-04."


def _guesses(text: str) -> list[str]:
    """Days that the text may mean, as YYYY-MM-DD; two if day and month are ambiguous."""
    found = _WITH_TIME.fullmatch(text)
    if found:
        return [found[1]]
    found = _YEAR_LAST.fullmatch(text)
    if found:
        first, second, year = map(int, found.groups())
        return list(dict.fromkeys(filter(None, (_as_day(year, second, first), _as_day(year, first, second)))))
    found = _IN_WORDS.fullmatch(text)
    if found:
        return list(filter(None, [_as_day(int(found[3]), _month(found[2]), int(found[1]))]))
    found = _MONTH_FIRST.fullmatch(text)
    return list(filter(None, [_as_day(int(found[3]), _month(found[1]), int(found[2]))])) if found else []


def _month(name: str) -> int:
    """Number of an English month, possibly abbreviated; 0 if it is not one."""
    return next((number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())), 0)


def _as_day(year: int, month: int, day: int) -> str:
    """Format a day as YYYY-MM-DD; "" if it does not exist."""
    try:
        return datetime.date(year, month, day).isoformat()
    except ValueError:
        return ""
