"""The parts of a question that are compared with wordings, the name in them masked.

Talk stands around questions ("Listen, I lost a bet, so who heads Norway? Do not laugh."), and what it says must not
count: the sentence, its clause and the clause with the one before it are windows of their own beside the whole text.
"""

from __future__ import annotations

import re

from kgedit.graph_memory.relations import MASK

_SENTENCE = re.compile(r"[^.!?]*[.!?]+[\"')\]]*\s*|[^.!?]+$")
_BETWEEN_CLAUSES = re.compile(r"[,;:\u2013\u2014]+\s*|\s-+\s+")


def windows_of(text: str, start: int, end: int) -> list[str]:
    """A question's sentence with the name, all of it, the name's clause, and that with the clause before it.

    The last is for questions that begin ahead of a comma: "In politics, which group does X stand with?".

    Args:
        text: Composed.
        start: Of the name.
        end: Of the name.
    """
    masked = f"{text[:start]}{MASK}{text[end:]}"
    sentence_start, sentence = _sentence_at(masked, start)
    at = start - sentence_start
    ends = [found.end() for found in _BETWEEN_CLAUSES.finditer(sentence)]
    before = [0, *(place for place in ends if place <= at)]
    after = min((place for place in ends if place > at), default=len(sentence))
    clauses = [sentence[place:after] for place in before[:-3:-1]]
    return list(dict.fromkeys(window for each in (sentence, masked, *clauses) if (window := each.strip())))


def _sentence_at(text: str, place: int) -> tuple[int, str]:
    """Where the sentence around a place begins, and the sentence."""
    for found in _SENTENCE.finditer(text):
        if found.start() <= place < found.end():
            return found.start(), found.group()
    return 0, text
