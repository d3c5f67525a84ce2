"""Dates of remembered values as numbers, and the time that a question asks about.

A date is one number made of year, month and day, such as 20210331. Unknown parts are 0, so that March 2021 is 20210300.
An imprecise date covers every day that it may mean: a value that ended in 2021 may have held on any day of 2021.
A question asks about a date ("in 2019", "as of March 2021") or the history of a fact ("the previous mayor", "still").
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

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
        "jan feb mar apr may jun jul aug sep oct nov dec",
        "jänner febr mär apr mai jun jul aug sept okt nov dez",
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
_FIRST_OF_1900S = 30
_CENTURIES = {"nineteen": 1900, "twenty": 2000}
_SINCE_2000 = {word: number for number, word in enumerate(_UNITS, start=1)} | _NUMBERS

_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})\.?"
_MONTH_NUMBER = r"(?P<month_number>0[1-9]|1[0-2])"
_YEAR = r"(?P<year>[12]\d{3})"
_LIKELY_YEAR = r"(?:1[5-9]|20)\d\d"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=lambda word: -len(word)))


_YEAR_IN_WORDS = (
    rf"(?:(?P<century>{_any_of(_CENTURIES)})[ -](?P<rest>{_any_of(_NUMBERS)})"
    rf"|two thousand(?: and)?[ -](?P<since_2000>{_any_of(_SINCE_2000)}))"
)
_DAY = r"(?P<day>\d{1,2})(?:st|[nr]d|th|er|\.)?"
_PART = f"(?:the )?(?P<part>{_any_of(_PARTS)})"
_BEFORE = r"\b(?:(?:back\s+)?(?:as\s+of|as\s+at|at|in|on|during|by|im|am|circa|around)\s+(?:the\s+year\s+|jahre?\s+)?)"
_OPENING = r"(?:[,:;]|(?<!\s))\s*\(?"
"""Removed with a date. A search that began at each of many spaces would take as many steps from each."""
_WRITTEN = (
    rf"{_DAY}\s+(?:of\s+)?{_MONTH},?\s+(?:of\s+)?{_YEAR}",
    rf"{_MONTH}\s+{_DAY},?\s+{_YEAR}",
    rf"{_YEAR}-{_MONTH_NUMBER}-(?P<day>[0-3]\d)",
    rf"(?P<first>[0-3]?\d)(?P<mark>[./-])(?P<second>[0-3]?\d)(?P=mark){_YEAR}",
    rf"(?P<month_number>0?[1-9]|1[0-2])[./]{_YEAR}",
    rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}",
    rf"{_YEAR}-{_MONTH_NUMBER}",
)
"""Dates that need no word before them."""
_SPAN = rf"(?P<year>{_LIKELY_YEAR})\s?[-–/]\s?(?P<last>{_LIKELY_YEAR}|\d\d)\b(?![-/]\d)(?:\s+season\b)?"
"""From one year to another in figures: "2019-2022", a season "2019/20"."""
_DECADE = r"['’]?(?P<decade>(?:1[5-9]|20)?\d0)(?:['’]?s|ern?(?:[\s-](?:jahren?|years?))?)"
"""Ten years: "1990s", "90er Jahren"; "1800s" are a hundred."""
_ENDS = (*_WRITTEN, rf"{_PART}\s*{_YEAR}", _DECADE, _YEAR, _YEAR_IN_WORDS)
_END = tuple(re.compile(date, re.IGNORECASE) for date in _ENDS)
"""Dates that a period begins and ends with."""


def _without_groups(patterns: Iterable[str]) -> str:
    return "|".join(re.sub(r"\(\?P<\w+>", "(?:", each.replace("(?P=mark)", "[./-]")) for each in patterns)


_WITH_YEAR = _without_groups(_LIKELY_YEAR if date is _YEAR else date for date in _ENDS)
_WITHOUT_YEAR = _without_groups((rf"{_DAY}\s+(?:of\s+)?{_MONTH}", rf"{_MONTH}(?:\s+{_DAY})?", _PART))
_FROM_TO = (
    r"(?:\b(?:between|from|of|since|zwischen|vo[nm]|entre)\s+)?(?:(?:the|dem|el)\s+)?"
    rf"(?<![\w/.€$£#-])(?P<begin>{_WITH_YEAR}|{_WITHOUT_YEAR})"
    r"\s+(?:and|to|at|till|until|through|und|bis)\s+(?:(?:the|dem|zum|el)\s+)?"
    rf"(?P<ending>{_WITH_YEAR})\b\)?"
)
"""From one date to another: "from June to December 2021", "between 2019 and March 2022"."""
_IN_DECADE = (
    rf"(?:(?P<part>{_any_of(_PARTS)})[\s-]+(?:of\s+)?)?(?:(?:the|der|los|les)\s+)?"
    rf"(?:{_DECADE}"
    r"|(?:years|années|años)\s+(?P<years>(?:1[5-9]|20)?\d0))(?![\w/-])"
)
"""A decade after a preposition: "the late 1990s", "los años 90"."""
_FROM_TO_ANYWHERE = re.compile(rf"{_OPENING}(?:{_BEFORE}(?:the\s+)?)?{_FROM_TO}", re.IGNORECASE)
_DATES = (
    _FROM_TO_ANYWHERE,
    re.compile(rf"{_OPENING}{_BEFORE}(?!\d\ds)(?:the\s+|den\s+)?{_IN_DECADE}\)?,?", re.IGNORECASE),
    re.compile(rf"{_OPENING}{_BEFORE}['’](?P<year>\d\d)(?![\w'’])", re.IGNORECASE),
    *(
        re.compile(rf"{_OPENING}{_BEFORE}{date}\b\)?,?", re.IGNORECASE)
        for date in (
            *(f"(?:the\\s+)?{date}" for date in _WRITTEN),
            rf"{_PART}\s*{_YEAR}",
            rf"{_PART}\s+{_YEAR_IN_WORDS}",
            rf"{_MONTH},?\s+(?:of\s+)?{_YEAR_IN_WORDS}",
        )
    ),
    re.compile(rf"{_OPENING}(?:{_BEFORE}(?:the\s+)?)?(?<![\d/.-]){_SPAN}", re.IGNORECASE),
    *(re.compile(rf"{_OPENING}{_BEFORE}{date}\b\)?,?", re.IGNORECASE) for date in (_YEAR, _YEAR_IN_WORDS)),
    *(
        re.compile(rf"{_OPENING}(?:\bthe\s+)?(?<![\w/.-]){date}\b(?![-/]\d)\)?[,:]?", re.IGNORECASE)
        for date in _WRITTEN
    ),
    # A year by itself, after a verb or at the end: "Wer war 2019 Kanzler?", "mayor of boston 2015".
    re.compile(r"(?<=\bwa[rs] )(?P<year>(?:19|20)\d\d)\b", re.IGNORECASE),
    re.compile(rf"(?<=\w )(?:{_PART}\s*|{_MONTH}\s+)?(?P<year>(?:19|20)\d\d)(?=\s*[?.!]*\s*$)", re.IGNORECASE),
    # The year of an event: "at the 2022 World Cup".
    re.compile(rf"(?:(?<=\bat the )|(?<=\bduring the ))(?P<year>{_LIKELY_YEAR})(?=\s+[^\W\d_])", re.IGNORECASE),
)
_PLACED = ("year", "decade", "years", "month", "begin", "ending")
"""Groups that are not read inside a name."""
_ANYWHERE = re.compile(
    rf"{_OPENING}(?<![\w/.€$£#-])(?P<year>{_LIKELY_YEAR})(?![\w/%€-]|[.,]\d)(?:\)|[,:])?", re.IGNORECASE
)
"""A year in any other place: "Who was chancellor (2019)?", "the 2019 coach"."""
_BEFORE_NO_YEAR = re.compile(
    r"\b(?:than|over|nearly|almost|about|resolution|law|act|article|section"
    r"|flight|room|route|channel|model|number|no\.?|nr\.?|code|version|page|chapter|line|error|port"
    r"|asteroid|an?|my|our|your|his)\s+$",
    re.IGNORECASE,
)
"""Words before four figures that are a number or a thing's: "my 2019 Tesla"."""
_END_OF_TIME = (
    r"\b(?:since|after|until|till|before|from|prior\s+to|up\s+to|vor|nach|seit|bis|ab|avant|après|depuis"
    r"|jusqu['’](?:en|in|à)|antes\s+de|después\s+de|desde|hasta)"
    r"\s+(?:(?:the|of|year|about|around|circa|den|dem|der|jahre?|years|el|año)\s+)*"
    rf"(?:{_PART}\s*(?:of\s+)?)?(?:{_DAY}\s+(?:of\s+)?)?(?:{_MONTH},?\s+(?:\d{{1,2}}[a-z]*,?\s+)?(?:of\s+)?)?"
)
"""Words before a date that is only one end of the time asked about: "before 2019"."""
_AFTER_END_OF_TIME = re.compile(rf"{_END_OF_TIME}$", re.IGNORECASE)
_AFTER_NO_YEAR = re.compile(
    r"^\s?(?:euros?|dollars?|pounds?|yen|km|kilomet\w+|met(?:er|re)s?|m|miles?|feet|people|employees|members|seats|years?"
    r"|times|words|characters|tokens|lines|points|goals|hours|days|minutes|votes|inhabitants|pages|users|players|fans"
    r"|mitarbeiter|einwohner|wörter|zeichen|sitze|leute|stimmen)\b",
    re.IGNORECASE,
)
_JOINS = re.compile(r"\s*(?:[,&]|(?:and|or|vs\.?|versus|to|until|und|oder|bis)\b)?\s*", re.IGNORECASE)
"""Words between two dates."""
_LONGEST_BEFORE = 80
"""Characters of the words before a date that decide how it is read."""
_MOST_DATES = 4
"""Dates that are read in one text; a pasted one may contain hundreds."""

_HAS_YEAR = re.compile(
    rf"[12]\d{{3}}|['’]\d\d|\d0(?:s|er)|(?:years|années|años) \d0|{_any_of(_CENTURIES)}|two thousand", re.IGNORECASE
)
"""Occurs in every date; most questions have none."""


@dataclass(frozen=True, slots=True)
class Period:
    """A day, month or year as two date numbers, both inclusive."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DatedQuestion:
    """A question and the dates in it.

    Attributes:
        text: The question without the dates.
        as_of: ISO date at the precision of the question, the first of several; "" if it contains no date.
        until: The last of several dates, of which none is a part of another; else "".
    """

    text: str
    as_of: str
    until: str = ""

    @property
    def period(self) -> Period | None:
        """Days that are asked about, with those between several dates; None without a date."""
        return period_of(self.as_of, self.until)


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


def period_of(text: str, until: str = "") -> Period | None:
    """Days that an ISO date covers, with those to the end of a later one if given; None if the text is not a date."""
    number = date_number(text)
    if not number:
        return None
    earliest = number + 101 if number % 10_000 == 0 else number + 1 if number % 100 == 0 else number
    return Period(earliest, int(_latest(np.array([date_number(until) or number], dtype=np.int32))[0]))


def is_surely_before(end: int, since: int) -> bool:
    """Whether every day that an end may mean is before every day that a start may mean."""
    return end + (9999 if end % 10_000 == 0 else 99 if end % 100 == 0 else 0) < since


def holding(since: NDArray[np.int32], until: NDArray[np.int32], period: Period | None) -> NDArray[np.bool_]:
    """Mask of the intervals that overlap a period; None means now, which selects intervals without an end.

    A value that began and ended in 2005 may have held on any day of 2005, and one that ended on the day on which it
    began held on that day.
    """
    if period is None:
        now: NDArray[np.bool_] = until == HOLDS
        return now
    reaching: NDArray[np.bool_] = (since <= period.last) & (_latest(until) + (since == until) > period.first)
    return reaching


def has_year(question: str) -> bool:
    """Whether a question may contain a date."""
    return _HAS_YEAR.search(question) is not None


def read_date(question: str, *, named: Container[int] = (), titled: Container[int] = ()) -> DatedQuestion:
    """Remove the dates from a question, and return both: those after "in", "as of" or a similar word, else bare years.

    Args:
        question: The question.
        named: Indexes of the characters of known names, in which there are no dates.
        titled: Indexes of years that may be parts of unknown names: they are dates only after such a word or at the
            end.
    """
    text, found = question, list[re.Match[str]]()
    for _ in range(_MOST_DATES):
        if not has_year(text) or (date := _first_date(text, named, titled)) is None:
            break
        start, end = date.span()
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
        if not found or not _is_part(*(date_text(_numbers_of(each.groupdict())[0]) for each in (date, found[0]))):
            found.append(date)
    if not found:
        return DatedQuestion(question, "")
    dates = sorted(number for each in found for number in _numbers_of(each.groupdict()))
    until = date_text(dates[-1]) if len(dates) > 1 else ""
    return DatedQuestion(_without(question, sorted(each.span() for each in found)), date_text(dates[0]), until)


def _is_part(date: str, other: str) -> bool:
    """Whether one of two ISO dates is a part of the other: May 2019 of 2019."""
    return date.startswith(other) or other.startswith(date)


def _first_date(text: str, named: Container[int], titled: Container[int]) -> re.Match[str] | None:
    """The date that is written most clearly."""
    for pattern in (*_DATES, _ANYWHERE):
        for found in pattern.finditer(text):
            places = [found.start(group) for group in pattern.groupindex if group in _PLACED]
            titled_year = pattern is _ANYWHERE and places[0] in titled
            if titled_year or _is_number(found) or any(place in named for place in places) or _is_one_end(found):
                continue
            if _is_in_order(found.groupdict()):
                return found
    return None


def _is_one_end(found: re.Match[str]) -> bool:
    """Whether the time asked about only begins or ends with a date."""
    parts = found.groupdict()
    start = min(found.start(group) for group, written in parts.items() if written)
    return (
        not (parts.get("last") or parts.get("begin"))
        and _AFTER_END_OF_TIME.search(_just_before(found.string, start)) is not None
    )


def _just_before(text: str, place: int) -> str:
    """The end of the text before a place. Searching all of it at each of many dates is quadratic."""
    return text[max(0, place - _LONGEST_BEFORE) : place]


def _is_number(found: re.Match[str]) -> bool:
    """Whether the words around a year, or two, that need no preposition show that they are not asked about."""
    if found.re is not _ANYWHERE and found.re is not _FROM_TO_ANYWHERE:
        return False
    parts = ("year", "year") if found.re is _ANYWHERE else ("begin", "ending")
    before, after = _just_before(found.string, found.start(parts[0])), found.string[found.end(parts[1]) :]
    return _BEFORE_NO_YEAR.search(before) is not None or _AFTER_NO_YEAR.search(after) is not None


def _is_in_order(parts: Mapping[str, str | None]) -> bool:
    """Whether a span ends after its beginning; one that ends with two figures is a season, and ends a year later."""
    numbers = _numbers_of(parts)
    is_season = len(parts.get("last") or "") == len("20")
    return numbers[-1] - numbers[0] == 10_000 if is_season else len(numbers) == 1 or numbers[-1] > numbers[0]


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A text without some ranges, and without the words that join them: "in 2019 and in 2022"."""
    ranges = list(spans)
    ranges += [(end, start) for (_, end), (start, _) in pairwise(spans) if _JOINS.fullmatch(text[end:start])]
    left, at = [], 0
    for start, end in sorted(ranges):
        left.append(text[at:start])
        at = end
    return re.sub(r"\s+([?.!,]|\s)", r"\1", " ".join([*left, text[at:]]).strip())


def _numbers_of(parts: Mapping[str, str | None]) -> list[int]:
    """Numbers of the one or two dates that one of the patterns found, from its named groups."""
    if begin := parts.get("begin"):
        last = _numbers_written(str(parts["ending"]))[-1]
        return [(_numbers_written(begin) or _numbers_written(f"{begin} {last // 10_000}") or [UNKNOWN_START])[0], last]
    if decade := parts.get("decade") or parts.get("years"):
        year = _four_figures(decade)
        is_century = len(decade) == len("1800") and year % 100 == 0 and year < 2000
        return [10_000 * year, 10_000 * (year + (99 if is_century else 9))]
    if parts.get("century"):
        year = _CENTURIES[str(parts["century"]).lower()] + _NUMBERS[str(parts["rest"]).lower()]
    elif parts.get("since_2000"):
        year = 2000 + _SINCE_2000[str(parts["since_2000"]).lower()]
    else:
        year = _four_figures(parts["year"] or "0000")
    month, day = int(parts.get("month_number") or 0), int(parts.get("day") or 0)
    if parts.get("mark"):
        month, day = _month_and_day(int(parts["first"] or 0), int(parts["second"] or 0))
    if name := parts.get("month"):
        month = _MONTHS[name.lower()]
    if part := parts.get("part"):
        month = _PARTS[part.lower()]
    number = 10_000 * year + 100 * month + day
    if until := parts.get("last"):
        return [number, 10_000 * int(f"{year // 100}{until}" if len(until) == len("20") else until)]
    return [number]


def _four_figures(year: str) -> int:
    """A year of two or four figures; 30 to 99 are 1930 to 1999."""
    return int(year) + (0 if len(year) == len("2019") else 1900 if int(year) >= _FIRST_OF_1900S else 2000)


def _numbers_written(date: str) -> list[int]:
    """Numbers of a date that a period begins or ends with, two of a decade; none if it has no year."""
    found = next((written for end in _END if (written := end.fullmatch(date)) is not None), None)
    return [] if found is None else _numbers_of(found.groupdict())


def _month_and_day(first: int, second: int) -> tuple[int, int]:
    """Month and day in figures: in English either may be first, and zeros mean that it is uncertain.

    A lexicon changes the dates of other languages, where the day is first (kgedit.graph_memory.languages).
    """
    months = {(month, day) for month, day in ((first, second), (second, first)) if 1 <= month <= 12 and 1 <= day <= 31}
    return months.pop() if len(months) == 1 else (0, 0)


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
HALF_OPEN = re.compile(
    rf"{_END_OF_TIME}(?:{_without_groups([_DECADE])}|{_LIKELY_YEAR}|{_YEAR_IN_WORDS}|[0-3]?\d[./-][\d./-]*{_LIKELY_YEAR})",
    re.IGNORECASE,
)
_ABOUT_TIME = re.compile(
    r"\b(?:before|now|then|today|after|until|since|previously|earlier|was|vorher|jetzt)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class TimedQuestion:
    """A question and the time that it asks about.

    Attributes:
        text: The question without the dates.
        period: Days of the dates in the question; None if it contains no date.
        asks_history: Whether ended values are asked for too.
        is_about_time: Whether a follow-up of these words may repeat an earlier question about another time.
    """

    text: str
    period: Period | None
    asks_history: bool
    is_about_time: bool


def read_time(dated: DatedQuestion, question: str) -> TimedQuestion:
    """Read the time that a question asks about.

    Args:
        dated: The question with its dates read, or with none if they are not to be read.
        question: The question.
    """
    history = not dated.as_of and any(pattern.search(question) for pattern in (_HISTORY, HALF_OPEN))
    about_time = bool(dated.as_of) or history or _ABOUT_TIME.search(question) is not None
    return TimedQuestion(dated.text, dated.period, history, about_time)
