"""Words of a question with their positions, and the word lists of prompts/qaedit/words.yaml for rules of subjects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue, refuse


@dataclass(frozen=True, slots=True)
class EnglishWords:
    """Words by their role in a question; the attributes are the lists of the file."""

    question: frozenset[str]
    auxiliary: frozenset[str]
    preposition: frozenset[str]
    determiner: frozenset[str]
    boundary: frozenset[str]
    verb: frozenset[str]
    role: frozenset[str]
    measure: frozenset[str]
    adjective: frozenset[str]
    month: frozenset[str]
    weekday: frozenset[str]
    opener: frozenset[str]
    particle: frozenset[str]
    rank: frozenset[str]

    def ends_phrase(self, word: str) -> bool:
        """Whether a word in lower case cannot be part of a simple noun phrase."""
        return (
            word in self.auxiliary
            or word in self.preposition
            or word in self.boundary
            or word in self.question
            or word in self.determiner
            or word in self.verb
        )


@cache
def english_words() -> EnglishWords:
    """The shipped lists."""
    path = data_folder("prompts") / "qaedit" / "words.yaml"
    content = read_catalogue(path)
    names = [field.name for field in fields(EnglishWords)]
    refuse(path, [f"'{name}' must be a text of words" for name in names if not isinstance(content.get(name), str)])
    return EnglishWords(**{name: frozenset(content[name].split()) for name in names})


_TOKEN = re.compile(r"[\w$£€%#]+(?:['’.\-–/&][\w]+)*|[^\w\s]")

Run = tuple[int, int]
"""A half-open range of tokens."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or punctuation mark of a question, with its half-open range of characters."""

    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """The word in lower case."""
        return self.text.lower()

    @property
    def is_word(self) -> bool:
        """Whether it is a word, not a mark."""
        return self.text[0].isalnum() or self.text[0] in "$£€#_"

    @property
    def is_capital(self) -> bool:
        """Whether it begins with a capital letter."""
        return self.text[0].isupper()


def tokens_of(text: str) -> list[Token]:
    """Split a text into words and marks."""
    return [Token(found.group(), *found.span()) for found in _TOKEN.finditer(text)]


def end_of_words(tokens: Sequence[Token]) -> int:
    """Index after the last word: without the marks at the end, but with the point of "U.S."."""
    end = len(tokens)
    while end and not tokens[end - 1].is_word:
        if tokens[end - 1].text == "." and end > 1 and "." in tokens[end - 2].text:
            break
        end -= 1
    return end
