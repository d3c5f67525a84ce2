"""Noun phrases that are the subject of a question, found by word order alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgedit.timesteps.qaedit.tokens import Run, Token, end_of_words
from kgedit.timesteps.qaedit.words import EnglishWords

_LINKS = frozenset(("of", "in", "on", "for", "from", "that", "who", "which", "called", "named"))
_OBJECTS = frozenset(("place", "part"))
_ARTICLES = frozenset(("the", "a", "an"))
_CLAUSES = frozenset(("who", "which", "whose"))
_HELPERS = frozenset(("did", "does", "do", "has", "have", "had", "can", "could", "will", "would"))


def ranked_phrase(tokens: Sequence[Token], words: EnglishWords) -> Run | None:
    """The phrase that a rank or "only" selects from, to its end: "the only bridge in the county that ..."."""
    if not tokens or (tokens[0].lower not in words.question and tokens[0].lower != "name"):
        return None
    for index in range(2, min(len(tokens) - 1, 12)):
        if not _is_rank(tokens[index], words) or tokens[index - 1].lower != "the":
            continue
        if tokens[index - 2].lower not in words.auxiliary and tokens[index - 2].lower not in ("of", "name"):
            return None
        if tokens[index + 1].lower in words.measure or tokens[index + 1].lower in ("and", "to"):
            continue
        end = end_of_words(tokens)
        if tokens[0].lower not in ("what", "who", "which", "name"):
            end = next((at for at in range(index + 1, end) if tokens[at].lower in words.verb), end)
        names_of = any(
            tokens[at].lower == "of" and any(token.is_capital for token in tokens[at + 1 : at + 3])
            for at in range(index, end)
        )
        capitals = any(token.is_capital for token in tokens[1:])
        return None if names_of else (index - 1 if capitals else index, end)
    return None


def main_phrase(tokens: Sequence[Token], words: EnglishWords) -> Run | None:
    """The noun phrase that is the subject of a question without capitals."""
    end = end_of_words(tokens)
    start, inverted = _behind_opener(tokens, end, words)
    if start >= end:
        return None
    start = _behind_role(tokens, start, end, words)
    if inverted:
        end = _before_verb(tokens, start + 1, end, words)
    end = next((at for at in range(start + 1, end) if _begins_clause(tokens, at, words)), end)
    while start < end - 1 and tokens[start].lower in _ARTICLES:
        start += 1
    while inverted and end > start + 1 and tokens[end - 1].lower in words.boundary | words.rank:
        end -= 1
    return (start, end) if end > start else None


def _begins_clause(tokens: Sequence[Token], at: int, words: EnglishWords) -> bool:
    """Whether a relative clause or a second question begins at a token."""
    if tokens[at].lower == "and":
        return at + 1 < len(tokens) and tokens[at + 1].lower in words.question
    return tokens[at].text == "," or tokens[at].lower in _CLAUSES


def _before_verb(tokens: Sequence[Token], start: int, end: int, words: EnglishWords) -> int:
    """End of a subject before its verb, which is usually the last verb of the clause."""
    verbs = [at for at in range(start, end) if tokens[at].lower in words.verb]
    closed = [at for at in verbs if at == end - 1 or tokens[at + 1].lower in words.preposition | _OBJECTS]
    return (closed or verbs or [end])[0]


def _behind_opener(tokens: Sequence[Token], end: int, words: EnglishWords) -> tuple[int, bool]:
    """Start of the question's own phrase, and whether a verb may follow it."""
    first = tokens[0].lower if tokens else ""
    if first in ("who's", "what's", "where's"):
        return 1, False
    if first not in words.question and first not in words.preposition and first not in words.role:
        return 0, True
    for index in range(1, min(end, 8)):
        word = tokens[index].lower
        behind = tokens[index + 1].lower if index + 1 < end else ""
        if word in words.auxiliary:
            if behind in words.verb and index + 2 < end:
                return _behind_prepositions(tokens, index + 2, end, words), False
            inverted = first not in ("who", "what", "which") or word in _HELPERS
            return index + 1, inverted
        if word in words.verb and first not in ("when", "where", "why", "how"):
            return _behind_prepositions(tokens, index + 1, end, words), False
    return 1, True


def _behind_prepositions(tokens: Sequence[Token], index: int, end: int, words: EnglishWords) -> int:
    """Position after "in" of "live in", "part in" of "took part in"."""
    if index + 1 < end and tokens[index].lower in ("part", "place") and tokens[index + 1].lower in words.preposition:
        return index + 2
    return index + 1 if index < end - 1 and tokens[index].lower in words.preposition else index


def _behind_role(tokens: Sequence[Token], start: int, end: int, words: EnglishWords) -> int:
    """Position after "the meaning of", "the song" and the like."""
    at = start
    while at < end - 1 and tokens[at].lower in _ARTICLES:
        at += 1
    further = at
    while further < end - 1 and tokens[further].lower in words.role:
        further += 1
    if further > at:
        while further < end - 1 and tokens[further].lower in _LINKS | words.verb:
            further += 1
        return further
    return start


def asked_kinds(tokens: Sequence[Token], words: EnglishWords) -> Iterator[Run]:
    """Yield the noun phrases after "which" and "what": "Which wood floats ..."."""
    for index, token in enumerate(tokens[:-1]):
        if token.lower not in ("which", "what"):
            continue
        end = index + 1
        while end < len(tokens) and tokens[end].is_word and not words.ends_phrase(tokens[end].lower):
            end += 1
        if end > index + 1 and tokens[end - 1].lower not in words.measure:
            yield index + 1, end


def _is_rank(token: Token, words: EnglishWords) -> bool:
    return token.lower in words.rank
