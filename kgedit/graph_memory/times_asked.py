"""The time that a question asks about: a date in it, or the history of a fact ("the previous mayor", "still").

kgedit.graph_memory.dates reads the dates.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kgedit.graph_memory.dates import read_date

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
