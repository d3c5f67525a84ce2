"""Normal form of an answer: lower case, no punctuation or articles, single spaces (SQuAD's, for all of Unicode)."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache

_ARTICLES = frozenset({"a", "an", "the"})


class _WithoutPunctuation(dict[int, int | None]):
    """str.translate table that classifies each character once."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        drop = character in string.punctuation or unicodedata.category(character).startswith("P")
        self[code] = None if drop else code
        return self[code]


_TABLE = _WithoutPunctuation()


def normalize(text: str) -> str:
    """Convert to lower case, remove punctuation and articles, and collapse spaces."""
    return " ".join(word for word in _plain(text).split() if word not in _ARTICLES)


def comparable(text: str, answer: str) -> tuple[str, str]:
    """Both texts in the strongest normal form in which the answer is not empty.

    An answer such as "The The" or "!!!" has an empty normal form, which would match any empty text.
    """
    form = _form_for(answer)
    return form(text), form(answer)


@lru_cache(maxsize=65536)
def _form_for(answer: str) -> Callable[[str], str]:
    forms: tuple[Callable[[str], str], ...] = (normalize, _without_punctuation)
    return next((form for form in forms if form(answer)), _lower)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower().translate(_TABLE)


def _without_punctuation(text: str) -> str:
    return " ".join(_plain(text).split())


def _lower(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).lower().split())
