"""Misspelt words of questions, replaced by the words that ask for relations: "mayer", "spous".

Only words in lower case are replaced, because a capital letter is a sign of a name, and none that the catalogue's
wordings contain.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache, lru_cache

from kgedit.graph_memory.nicknames import asking_words, capital_words, ordinary_words, sentence_words
from kgedit.graph_memory.relations import stem
from kgedit.wording.name_index import Spellings

_WORD = re.compile(r"\b[a-z]{4,}\b")


def read_misspelt(text: str, known: Container[str]) -> str:
    """A text with misspelt words of relations corrected.

    Args:
        text: The text, without the names of entities.
        known: Stems of words that are not misspelt (kgedit.graph_memory.relations.stem).
    """
    return _WORD.sub(lambda found: _corrected(found.group(), known), text)


def _corrected(word: str, known: Container[str]) -> str:
    meant = _meant(word)
    # "mayer" has the stem of "mayor", and says nothing about being known.
    return meant if meant == word or stem(word) not in known or stem(word) == stem(meant) else word


@lru_cache(maxsize=8192)
def _meant(word: str) -> str:
    """The word that a word is a misspelling of, or the word itself; cached, because questions share most words."""
    if any(word in words for words in _not_corrected()):
        return word
    # The first letter is hardly ever wrong, except for being exchanged with the second.
    near = [other for other in _spellings().near(word) if word[0] in (other[0], other[1])]
    return word if len({stem(other) for other in near}) != 1 or word.startswith(near[0]) else near[0]


@cache
def _not_corrected() -> tuple[frozenset[str], ...]:
    return ordinary_words(), sentence_words(), capital_words()


@cache
def _spellings() -> Spellings:
    spellings = Spellings()
    spellings.extend(sorted(asking_words()))
    return spellings
