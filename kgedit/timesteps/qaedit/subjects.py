"""The subject of a question: a name that the store knows, or a span that the rules find."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.names.index import Mention
from kgedit.timesteps.qaedit.names import Names
from kgedit.timesteps.qaedit.spans import Span, find_span
from kgedit.timesteps.qaedit.tokens import tokens_of
from kgedit.timesteps.qaedit.words import EnglishWords, english_words


@dataclass(frozen=True, slots=True)
class Subject:
    """What a question is about.

    Attributes:
        text: Exactly as the question has it.
        rule: What found it: "name", a rule of `spans`, or "model".
        entity: Id of the only item of that name; "" where it is not known.
    """

    text: str
    rule: str
    entity: str = ""


class SubjectFinder:
    """Finds subjects.

    Args:
        names: Of a store's items; None for rules alone.
    """

    def __init__(self, names: Names | None = None, words: EnglishWords | None = None) -> None:
        self._names = names
        self._words = words or english_words()

    def find(self, question: str) -> Subject | None:
        """The subject of a composed question; None where neither a name nor a rule fits."""
        span = find_span(question, self._words)
        named = _named(span, self._mentions(question))
        if named is not None and self._names is not None:
            start, end, mention = named
            return Subject(question[start:end], "name", self._names.only_bearer(mention.subjects))
        if span is None:
            return None
        return Subject(question[span.start : span.end], span.rule)

    def _mentions(self, question: str) -> list[Mention]:
        """Names in a question that can be its subject: the longest ones, no common words."""
        if self._names is None:
            return []
        found = [mention for mention in self._names.index.find(question) if not mention.nested]
        return [mention for mention in found if self._can_be_subject(question[mention.start : mention.end])]

    def _can_be_subject(self, text: str) -> bool:
        words = self._words
        return any(
            token.is_word
            and not words.ends_phrase(token.lower)
            and token.lower not in words.role
            and token.lower not in words.measure
            and token.text not in words.adjective
            and token.text not in words.month
            and token.text not in words.weekday
            and not token.text[0].isdigit()
            for token in tokens_of(text)
        )


def _named(span: Span | None, mentions: list[Mention]) -> tuple[int, int, Mention] | None:
    """Where the subject is a name: around the span that the rules found, or anywhere where they found none.

    The rules choose which thing is asked about, and names say where it begins and ends: a store knows most words of a
    question as names of something, and few of them are what it is about.
    """
    if span is None:
        longest = max(mentions, key=lambda mention: (mention.end - mention.start, -mention.start), default=None)
        return None if longest is None else (longest.start, longest.end, longest)
    # Names are whole words: the marks of a quotation are no part of them.
    marks = 1 if span.rule == "quotation" else 0
    around = next((one for one in mentions if one.start <= span.start + marks and span.end - marks <= one.end), None)
    return None if around is None else (min(around.start, span.start), max(around.end, span.end), around)
