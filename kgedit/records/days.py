"""Parses days as users write them: year first is accepted, and errors for anything else show the expected form."""

from __future__ import annotations

import calendar
import datetime
import re

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
        swapped = _written(year, day, month)
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
        return list(dict.fromkeys(filter(None, (_written(year, second, first), _written(year, first, second)))))
    found = _IN_WORDS.fullmatch(text)
    if found:
        return list(filter(None, [_written(int(found[3]), _month(found[2]), int(found[1]))]))
    found = _MONTH_FIRST.fullmatch(text)
    return list(filter(None, [_written(int(found[3]), _month(found[1]), int(found[2]))])) if found else []


def _month(name: str) -> int:
    """Number of an English month, possibly abbreviated; 0 if it is not one."""
    return next((number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())), 0)


def _written(year: int, month: int, day: int) -> str:
    """Format a day as YYYY-MM-DD; "" if it does not exist."""
    try:
        return datetime.date(year, month, day).isoformat()
    except ValueError:
        return ""
