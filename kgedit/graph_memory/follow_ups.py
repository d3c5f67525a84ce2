"""How a turn of a conversation, or the last sentence of a text, depends on what stands before it."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import replace

from kgedit.graph_memory.dates import HALF_OPEN, TimedQuestion
from kgedit.graph_memory.relations import content_stems
from kgedit.wording.name_index import Mention, words_of

PRONOUN = re.compile(
    r"\b(?P<of>his|her(?=\s+\w)|their|its|whose|seine?r?|ihre?r?)\b|\b(?:he|she|they|him|her|them|it|there|er|sie|dort"
    r"|(?:that|this|the) (?:country|city|club|team|company|corporation|group|party|man|woman|person|firm|place))\b",
    re.IGNORECASE,
)

_ENDS_SENTENCE = re.compile(r"(?<=[\w\"')])[.!?](?=\s)")
_ASKS = re.compile(
    r"\W*(?:(?:and|so|now|please|hey|ok) )*(?:wh\w+|how|is|are|was|were|does|do|did|has|have|can|could|would|will|name"
    r"|tell|give|compare|list|find|look|remind|say|state)\b",
    re.IGNORECASE,
)
"""Beginnings of sentences that ask."""
_ENDS_STATEMENT = re.compile(r"(?<=[\w\"')])(?:\.(?=\s)|;)")
_MOST_WORDS = 9
"""Words of a follow-up that repeats the earlier question about another name or time."""
_CORRECTION = re.compile(r"\b(?:no|sorry|actually)\b[,.!:]*\s+", re.IGNORECASE)
_JOINING = re.compile(
    # What joins a turn to the earlier one. Turns to memories in other languages are in English here, but for articles.
    "about|but|or|so|then|over|to|too|also|next|mean|meant|und|la|le|les|el|los|las"
    # Before the question.
    "|ok|okay|yes|yeah|thanks|thank|great|nice|good|cool|well|hmm|please"
    # Times and successors.
    "|now|today|currently|current|before|after|earlier|previous|previously|former|formerly|until|since|there|back|right"
    "|predecessors?|successors?|replaced?|succeeded|preceded|held|hold|came|come|took|again|still"
    # Who or what the earlier question was about.
    "|him|one|job|post|office|position|role|same|question|thing|way"
    "|club|team|city|country|rivals?|neighbou?rs?"
)
"""Content words of a follow-up that ask for nothing else, in lower case without accents."""


def repeats(turn: str, names: Sequence[Mention], earlier: Container[str]) -> bool:
    """Whether a turn may ask an earlier question again: about another name ("And Norway?") or time ("And before?").

    It may not if it has words of its own, such as "When was she born?" and "What is the capital of Norway?".

    Args:
        turn: The turn without its dates.
        names: Names in it.
        earlier: Words of the earlier question.
    """
    words = words_of(turn)
    passed = [(name.start, name.end) for name in names] + [found.span() for found in HALF_OPEN.finditer(turn)]
    # In "And Leeds... no, Brentford?" only the end counts.
    start = max((found.end() for found in _CORRECTION.finditer(turn)), default=0)
    return len(words) <= _MOST_WORDS and all(
        word.start < start
        or not content_stems(word.text)
        or _JOINING.fullmatch(word.text)
        or word.text in earlier
        or any(begun <= word.start and word.end <= ended for begun, ended in passed)
        for word in words
    )


def is_asked_later(text: str, mention: Mention, mentions: Sequence[Mention]) -> bool:
    """Whether a later sentence asks about what the name's sentence states: "A firm owns Fiat. Where is it based?"."""
    ended = _ENDS_STATEMENT.search(text, mention.end)
    if ended is None or "?" in text[: ended.end()]:
        return False
    asked = text[ended.end() :]
    named = any(each.start >= ended.end() and not each.nested for each in mentions)
    return "?" in asked and not named and PRONOUN.search(asked) is not None


def is_stated_before(text: str, mention: Mention, mentions: Sequence[Mention]) -> bool:
    """Whether a statement has the name and a later question another: "X is back, isn't he? Who coaches Y now?"."""
    ended = _ENDS_SENTENCE.search(text, mention.end)
    if ended is None:
        return False
    asked = text[ended.end() :]
    begun = max((found.end() for found in _ENDS_SENTENCE.finditer(text, 0, mention.start)), default=0)
    return (
        "?" in asked
        and any(each.start >= ended.end() and not each.nested for each in mentions)
        and PRONOUN.search(asked) is None
        and _ASKS.match(text[begun : ended.end()]) is None
    )


def divided(time: TimedQuestion) -> tuple[list[str], TimedQuestion]:
    """A text before its last sentence, and that sentence, as two turns: "I read about Fiat. Where is its seat?"."""
    ends = [found.end() for found in _ENDS_SENTENCE.finditer(time.text)]
    asked = time.text[ends[-1] :].strip() if ends else ""
    if not asked.endswith("?") or "?" in time.text[: ends[-1]]:
        return [time.text], time
    return [time.text[: ends[-1]], asked], replace(time, text=asked)
