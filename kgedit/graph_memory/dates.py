"""Dates of remembered values as numbers, and the time that a question asks about.

A date is one number made of year, month and day, such as 20210331. Unknown parts are 0, so that March 2021 is 20210300.
An imprecise date covers every day that it may mean: a value that ended in 2021 may have held on any day of 2021.
A question asks about a date ("in 2019", "as of March 2021") or the history of a fact ("the previous mayor", "still").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

UNKNOWN_START = 0
HOLDS = 2**31 - 1
"""End of a value that still holds."""
UNKNOWN_END = HOLDS - 1

_ISO = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")
_MONTHS = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "januar februar märz april mai juni juli august september oktober november dezember",
    )
    for number, name in enumerate(names.split(), start=1)
}
_PARTS = {
    **dict.fromkeys(("start of", "beginning of", "early", "first days of", "anfang"), 1),
    **dict.fromkeys(("spring of", "spring", "frühjahr"), 4),
    **dict.fromkeys(("summer of", "summer", "mid", "mid-", "middle of", "mitte", "sommer"), 7),
    **dict.fromkeys(("autumn of", "autumn", "fall of", "herbst"), 10),
    **dict.fromkeys(("end of", "late", "last days of", "ende"), 12),
}
"""Parts of a year, as the month that is taken for them."""

_UNITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBERS = {
    **{f"oh {word}": number for number, word in enumerate(_UNITS, start=1)},
    **{word: number for number, word in enumerate(_TEENS, start=10)},
    **{word: 10 * number for number, word in enumerate(_TENS, start=2)},
    **{
        f"{ten}{between}{unit}": 10 * tens + units
        for tens, ten in enumerate(_TENS, start=2)
        for units, unit in enumerate(_UNITS, start=1)
        for between in (" ", "-")
    },
}
_CENTURIES = {"nineteen": 1900, "twenty": 2000}
_SINCE_2000 = {word: number for number, word in enumerate(_UNITS, start=1)} | _NUMBERS

_MONTH = f"(?P<month>{'|'.join(_MONTHS)})"
_YEAR = r"(?P<year>[12]\d{3})"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=lambda word: -len(word)))


_YEAR_IN_WORDS = (
    rf"(?:(?P<century>{_any_of(_CENTURIES)})[ -](?P<rest>{_any_of(_NUMBERS)})"
    rf"|two thousand(?: and)?[ -](?P<since_2000>{_any_of(_SINCE_2000)}))"
)
_DAY = r"(?P<day>\d{1,2})(?:st|[nr]d|th|\.)?"
_PART = f"(?:the )?(?P<part>{_any_of(_PARTS)})"
_BEFORE = (
    r"\b(?:(?:back\s+)?(?:as\s+of|as\s+at|at|in|on|during|by|im|am|seit|circa|around)\s+(?:the\s+year\s+|jahre?\s+)?)"
)
_DATES = (
    *(
        re.compile(rf",?\s*{_BEFORE}{date}\b,?", re.IGNORECASE)
        for date in (
            rf"{_DAY}\s+{_MONTH},?\s+{_YEAR}",
            rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}",
            rf"{_YEAR}-(?P<month_number>\d\d)-(?P<day>\d\d)",
            rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}",
            rf"{_YEAR}-(?P<month_number>\d\d)",
            rf"{_PART}\s*{_YEAR}",
            rf"{_PART}\s+{_YEAR_IN_WORDS}",
            rf"{_MONTH},?\s+(?:of\s+)?{_YEAR_IN_WORDS}",
            _YEAR,
            _YEAR_IN_WORDS,
        )
    ),
    # A year by itself, after a verb or at the end: "Wer war 2019 Kanzler?", "mayor of boston 2015".
    re.compile(r"(?<=\bwa[rs] )(?P<year>(?:19|20)\d\d)\b", re.IGNORECASE),
    re.compile(rf"(?<=\w )(?:{_PART}\s*|{_MONTH}\s+)?(?P<year>(?:19|20)\d\d)(?=\s*[?.!]*\s*$)", re.IGNORECASE),
)

_HAS_YEAR = re.compile(rf"[12]\d{{3}}|{_any_of(_CENTURIES)}|two thousand", re.IGNORECASE)
"""Occurs in every date; most questions have none."""


@dataclass(frozen=True, slots=True)
class Period:
    """A day, month or year as two date numbers, both inclusive."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DatedQuestion:
    """A question and the date in it.

    Attributes:
        text: The question without the date.
        as_of: ISO date at the precision of the question; "" if it contains no date.
    """

    text: str
    as_of: str


def date_number(text: str) -> int:
    """Convert an ISO date of any precision to a number; UNKNOWN_START if the text is not a date."""
    found = _ISO.match(text)
    if found is None:
        return UNKNOWN_START
    year, month, day = (int(part or 0) for part in found.groups())
    return 10_000 * year + 100 * month + day


def date_text(number: int) -> str:
    """Convert a date number to an ISO date; "" if there is no date, "?" for an end at an unknown time."""
    if number in (UNKNOWN_START, HOLDS):
        return ""
    if number == UNKNOWN_END:
        return "?"
    year, month, day = number // 10_000, number // 100 % 100, number % 100
    return f"{year:04}" + (f"-{month:02}" if month else "") + (f"-{day:02}" if month and day else "")


def period_of(text: str) -> Period | None:
    """Days that an ISO date covers; None if the text is not a date."""
    number = date_number(text)
    if not number:
        return None
    earliest = number + 101 if number % 10_000 == 0 else number + 1 if number % 100 == 0 else number
    return Period(earliest, int(_latest(np.array([number], dtype=np.int32))[0]))


def holding(since: NDArray[np.int32], until: NDArray[np.int32], period: Period | None) -> NDArray[np.bool_]:
    """Mask of the intervals that overlap a period; None means now, which selects intervals without an end."""
    if period is None:
        now: NDArray[np.bool_] = until == HOLDS
        return now
    reaching: NDArray[np.bool_] = (since <= period.last) & (_latest(until) > period.first)
    return reaching


def read_date(question: str) -> DatedQuestion:
    """Remove the date from a question, and return both: one after "in", "as of" or a similar word, else a bare year."""
    for pattern in _DATES if _HAS_YEAR.search(question) else ():
        found = pattern.search(question)
        if found is None:
            continue
        left = f"{question[: found.start()]} {question[found.end() :]}".strip()
        return DatedQuestion(re.sub(r"\s+([?.!,]|\s)", r"\1", left), date_text(_number_of(found.groupdict())))
    return DatedQuestion(question, "")


def _number_of(parts: Mapping[str, str | None]) -> int:
    """Number of the date that one of the patterns found, from its named groups."""
    if parts.get("century"):
        year = _CENTURIES[str(parts["century"]).lower()] + _NUMBERS[str(parts["rest"]).lower()]
    elif parts.get("since_2000"):
        year = 2000 + _SINCE_2000[str(parts["since_2000"]).lower()]
    else:
        year = int(parts["year"] or 0)
    month = int(parts.get("month_number") or 0)
    if name := parts.get("month"):
        month = _MONTHS[name.lower()]
    if part := parts.get("part"):
        month = _PARTS[part.lower()]
    return 10_000 * year + 100 * month + int(parts.get("day") or 0)


def _latest(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Last day that each date may mean. A precise end is the first day on which a value no longer holds."""
    latest: NDArray[np.int32] = np.where(
        numbers >= UNKNOWN_END,
        numbers,
        np.where(numbers % 10_000 == 0, numbers + 9999, np.where(numbers % 100 == 0, numbers + 99, numbers)),
    )
    return latest


_HISTORY = re.compile(
    r"\b(?:previous|former|predecessors?|preceded?|replaced|succeeded|successor|used to|before|ex|still|any ?more"
    r"|no longer|until when|since when|how long|stop(?:ped)? being|resign(?:ed)?|left office|earlier|formerly"
    r"|vorherige[rsn]?|frühere[rsn]?|ehemalige[rsn]?|vorgänger(?:in)?|nachfolger(?:in)?|noch|bisherige[rn]?|seit wann"
    r")\b",
    re.IGNORECASE,
)
_ABOUT_TIME = re.compile(
    r"\b(?:before|now|then|today|after|until|since|previously|earlier|was|vorher|jetzt)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class TimedQuestion:
    """A question and the time that it asks about.

    Attributes:
        text: The question without the date.
        as_of: ISO date at the precision of the question; "" if it contains no date.
        asks_history: Whether ended values are asked for too.
        is_about_time: Whether a follow-up of these words may repeat an earlier question about another time.
    """

    text: str
    as_of: str
    asks_history: bool
    is_about_time: bool


def read_time(question: str, *, dated: bool = True) -> TimedQuestion:
    """Read the time that a question asks about.

    Args:
        question: The question.
        dated: Whether dates are read.
    """
    text, as_of = question, ""
    if dated:
        found = read_date(question)
        text, as_of = found.text, found.as_of
    history = _HISTORY.search(question) is not None and not as_of
    return TimedQuestion(text, as_of, history, bool(as_of) or history or _ABOUT_TIME.search(question) is not None)
