"""Words and punctuation marks of a question, with their positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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
