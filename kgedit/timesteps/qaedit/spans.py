"""Subject of a question without a dictionary: a span found by quotation marks, capitals and word order.

A span is a guess. It records the rule that found it, so that readers can exclude weak rules.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgedit.timesteps.qaedit.capitals import POSSESSIVE, has_capitals, name_runs
from kgedit.timesteps.qaedit.phrases import asked_kinds, main_phrase, ranked_phrase
from kgedit.timesteps.qaedit.tokens import Run, Token, tokens_of
from kgedit.timesteps.qaedit.words import EnglishWords

_DOUBLED = re.compile(r'""[^"]+""')
"""Quotation in a CSV field that was never decoded, as in some of TriviaQA's questions."""

_QUOTED = (
    re.compile(r'"([^"]+)"'),
    re.compile(r"“([^”]+)”"),
    re.compile(r"(?<!\w)‘([^’]+(?:’\w[^’]*)*)’"),
    re.compile(r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)"),
)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a question.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        rule: Rule that found it.
    """

    start: int
    end: int
    rule: str


def find_span(question: str, words: EnglishWords) -> Span | None:
    """Find the most likely subject of a question; None if no rule finds one."""
    return next(_by_rules(question, words), None)


def _by_rules(question: str, words: EnglishWords) -> Iterator[Span]:
    tokens = tokens_of(question)
    ranked = ranked_phrase(tokens, words)
    if ranked:
        yield _span(tokens, ranked, "rank")
    yield from _quoted(question)
    if has_capitals(tokens, words):
        yield from (_without_possessive(_span(tokens, run, "capitals"), question) for run in name_runs(tokens, words))
        yield from (_span(tokens, run, "what is asked for") for run in asked_kinds(tokens, words))
    phrase = main_phrase(tokens, words)
    if phrase and any(_means_something(token, words) for token in tokens[phrase[0] : phrase[1]]):
        yield _span(tokens, phrase, "phrase")
    yield from (_span(tokens, run, "what is asked for") for run in asked_kinds(tokens, words))


def _span(tokens: Sequence[Token], run: Run, rule: str) -> Span:
    return Span(tokens[run[0]].start, tokens[run[1] - 1].end, rule)


def _without_possessive(span: Span, question: str) -> Span:
    return dataclasses.replace(span, end=span.end - 2) if question[: span.end].endswith(POSSESSIVE) else span


def _means_something(token: Token, words: EnglishWords) -> bool:
    function_words = words.question | words.auxiliary | words.preposition | words.determiner | words.boundary
    return token.is_word and token.lower not in function_words


def _quoted(question: str) -> Iterator[Span]:
    """Yield the first quotation, with its marks, unless there are several in a row, which are not titles."""
    doubled = [(found.start() + 1, found.end() - 1) for found in _DOUBLED.finditer(question)]
    found = doubled or sorted(match.span() for pattern in _QUOTED for match in pattern.finditer(question))
    titles = [(start, end) for start, end in found if _is_title(question[start + 1 : end - 1])]
    if titles and len(found) < 3:
        yield Span(*titles[0], "quotation")


def _is_title(text: str) -> bool:
    """Whether a quotation is a name, not a quoted sentence."""
    return text[:1].isupper() and not re.search(r"[.!?] \w", text)
