"""Subject of a question: a name in the store, or a span found by rules."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.names.index import Mention
from kgedit.timesteps.qaedit.names import Names
from kgedit.timesteps.qaedit.spans import Span, find_span
from kgedit.timesteps.qaedit.tokens import tokens_of
from kgedit.timesteps.qaedit.words import EnglishWords, english_words


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a question.

    Attributes:
        text: Text, verbatim from the question.
        rule: Rule that found it: "name", a rule of `spans`, or "model".
        entity: Id of the only item with that name; "" if unknown.
    """

    text: str
    rule: str
    entity: str = ""


class SubjectFinder:
    """Finds subjects.

    Args:
        names: Names of a store's items; None uses rules alone.
    """

    def __init__(self, names: Names | None = None, words: EnglishWords | None = None) -> None:
        self._names = names
        self._words = words or english_words()

    def find(self, question: str) -> Subject | None:
        """Find the subject of a question in composed Unicode (NFC); None if neither a name nor a rule matches."""
        span = find_span(question, self._words)
        named = _named(span, self._mentions(question))
        if named is not None and self._names is not None:
            start, end, mention = named
            return Subject(question[start:end], "name", self._names.only_bearer(mention.subjects))
        if span is None:
            return None
        return Subject(question[span.start : span.end], span.rule)

    def _mentions(self, question: str) -> list[Mention]:
        """Names in a question that can be its subject: the longest ones, without common words."""
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
    """Choose a name as subject: one that contains the span found by rules, or any if they found none.

    Rules choose the subject, and names determine its boundaries: a store has most words of a question as names of
    something, but few of them are its subject.
    """
    if span is None:
        longest = max(mentions, key=lambda mention: (mention.end - mention.start, -mention.start), default=None)
        return None if longest is None else (longest.start, longest.end, longest)
    # Names are whole words, so quotation marks are not part of them.
    marks = 1 if span.rule == "quotation" else 0
    around = next((one for one in mentions if one.start <= span.start + marks and span.end - marks <= one.end), None)
    return None if around is None else (min(around.start, span.start), max(around.end, span.end), around)
