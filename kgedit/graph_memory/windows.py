"""Windows: parts of a question, with the name masked, that are compared with wordings.

Questions come with other talk ("Listen, I lost a bet, so who heads Norway? Do not laugh.") that must not count. Windows
are the whole text, the sentence with the name, its clause, and that clause with the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgedit.graph_memory.relations import MASK

OTHER_MASK = "Y"
"""Replaces names other than the subject's in texts that are read by the matcher."""

_SENTENCE = re.compile(r"[^.!?]*[.!?]+[\"')\]]*\s*|[^.!?]+$")
_BETWEEN_CLAUSES = re.compile(r"[,;:\u2013\u2014]+\s*|\s-+\s+")
_BARE_GENITIVE = re.compile(rf"\b{MASK}s\b")
"""A genitive without an apostrophe: "norways king"."""
_GOES_ON = re.compile(r"\.(?= [a-z])")


def windows_of(text: str, start: int, end: int, others: Sequence[tuple[int, int]] = ()) -> list[str]:
    """Windows around a name: its sentence, the whole text, its clause, and that clause with the one before it.

    The last one is for questions that begin before a comma: "In politics, which group does X stand with?".

    Args:
        text: The question, in composed Unicode form.
        start: Index of the name's first character.
        end: Index after the name's last character.
        others: Half-open ranges of other names, which become OTHER_MASK; those that overlap the name stay.
    """
    for first, last in _widest(others):
        if first >= end:
            text = f"{text[:first]}{OTHER_MASK}{text[last:]}"
        elif last <= start:
            text = f"{text[:first]}{OTHER_MASK}{text[last:]}"
            shift = len(OTHER_MASK) - (last - first)
            start, end = start + shift, end + shift
    if "." in text[start:end] and _GOES_ON.match(text, end):
        # The dot of "Celtic F.C." ends no sentence here.
        text = f"{text[:end]}{text[end + 1 :]}"
    masked = _BARE_GENITIVE.sub(rf"{MASK}'s", f"{text[:start]}{MASK}{text[end:]}".replace("_", " "))
    sentence_start, sentence = _sentence_at(masked, start)
    at = start - sentence_start
    ends = [found.end() for found in _BETWEEN_CLAUSES.finditer(sentence)]
    before = [0, *(place for place in ends if place <= at)]
    after = min((place for place in ends if place > at), default=len(sentence))
    clauses = [sentence[place:after] for place in before[:-3:-1]]
    return list(dict.fromkeys(window for each in (sentence, masked, *clauses) if (window := each.strip())))


def _widest(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that are within no other one, each once, last first."""
    found = [one for one in set(ranges) if not any(a <= one[0] and one[1] <= b and (a, b) != one for a, b in ranges)]
    return sorted(found, reverse=True)


def _sentence_at(text: str, place: int) -> tuple[int, str]:
    """Start of the sentence that contains an index, and the sentence."""
    for found in _SENTENCE.finditer(text):
        if found.start() <= place < found.end():
            return found.start(), found.group()
    return 0, text
