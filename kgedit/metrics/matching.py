"""Compares a text with a name: the normal form of an answer, and whether a text contains a name as whole words.

Normal form: lower case, no punctuation or articles, single spaces (SQuAD's, for all of Unicode). Containment also
ignores accents.

Words are separated by spaces. Chinese, Japanese, Thai, Lao, Khmer, Burmese and Tibetan are written without spaces, so a
name in these scripts may be part of a longer run: 東京 is found in 東京都, but so is 京都, which only a dictionary can
exclude. A katakana word ends where its script does. Korean particles directly follow a name, so a name in Hangul must
begin a word but need not end one. In French, Italian and Catalan an elided word may precede a name: l'Allemagne.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

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


_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ħ": "h",
        "ŧ": "t",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ı": "i",
        "ĸ": "k",
        "ŋ": "n",
        "ə": "e",
        "ɓ": "b",
        "ɗ": "d",
        "ƙ": "k",
        "ʻ": "",
        "ʼ": "",
        "ʾ": "",
        "ʿ": "",
        "ـ": "",
    }
)
"""Letters that Unicode does not decompose, with their usual substitutes; apostrophes that Unicode classifies as
letters; and the Arabic elongation stroke. casefold handles ß."""


_MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u0652\u0670]")
"""Accents of Latin, Greek and Cyrillic letters, and optional vowel signs of Hebrew and Arabic. Marks of other scripts
distinguish letters: か and が, กา and กำ."""


_HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2212"
_AROUND_HYPHEN = re.compile(rf"\s*[{_HYPHENS}]\s*")
_HYPHEN = re.compile(rf"[{_HYPHENS}]")


_CAPITAL = "[A-ZÀ-ÖØ-ÞŒŠŽ]"
_ARTICLE = "[dl]|all|[dn]ell|dall|sull"
_ELIDED = re.compile(
    rf"((?<![\w'’])(?:{_ARTICLE}|[cjmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|un|quell|quest))['’](?={_CAPITAL})"
    rf"|((?<![\w'’])(?:{_ARTICLE})|(?:^|(?<=[.!?:] ))(?:L|All|[DN]ell|Dall|Sull))['’](?={_CAPITAL}|\w{{4}})",
    re.MULTILINE,
)
"""An elided word of French, Italian or Catalan, with its apostrophe, before a capital; or an article or preposition
before a longer word, so that "n'est" is not Est. In capitals it begins a sentence: "L'Oréal" elsewhere is a name."""


_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_THAI_LAO = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
_OTHERS = (
    "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"  # Han and hiragana
    "\u0f40-\u0fbc\u1000-\u109f\u1780-\u17d3\ua9e0-\ua9fe\uaa60-\uaa7f"  # Tibetan, Burmese, Khmer
)
_HANGUL = "\u1100-\u11ff\uac00-\ud7a3"
UNSPACED = f"[{_THAI_LAO}{_OTHERS}]"
"""Pattern of a character of a script that writes no spaces between words."""
_UNSPACED = re.compile(UNSPACED)
_IS_KATAKANA = re.compile(f"[{_KATAKANA}]")
_IS_HANGUL = re.compile(f"[{_HANGUL}]")
_LEADING_VOWEL = re.compile("[\u0e40-\u0e44\u0ec0-\u0ec4]")
"""Vowels written before their consonant: no syllable ends after them."""


def contains(text: str, name: str) -> bool:
    """Whether a text contains a name.

    >>> contains("He ruled the Indo - Greek kingdom.", "Indo-Greek"), contains("It is in Tirana.", "Iran")
    (True, False)
    >>> contains("答えは東京です。", "東京"), contains("She lives in Store Heddinge", "Støre Heddinge")
    (True, True)
    """
    wanted = _forms(name)
    if not wanted.joined:
        return _contains_words(*comparable(text.casefold(), name.casefold()))
    found = _forms(text)
    return (
        _contains_words(found.joined, wanted.joined)
        or _contains_words(found.plain, wanted.plain)
        or (found.elided != found.joined and _contains_words(found.elided, wanted.joined))
        or (wanted.elided != wanted.joined and _contains_words(found.elided, wanted.elided))
        # Only for names of several words: "Holstein" must not match "Schleswig-Holstein".
        or (" " in wanted.apart and _contains_words(found.apart, wanted.apart))
    )


class _Forms(NamedTuple):
    """A text without case, accents, punctuation and articles, with hyphens treated in three ways.

    Attributes:
        joined: Hyphens and surrounding spaces removed: "indogreek" for "Indo - Greek".
        plain: Hyphens removed, as in the normal form of exact match: "indo greek" for "Indo - Greek".
        apart: Hyphens replaced by spaces: "indo greek" for "Indo-Greek".
        elided: As `joined`, with a space after elided words: "l allemagne" for "l'Allemagne".
    """

    joined: str
    plain: str
    apart: str
    elided: str


@lru_cache(maxsize=16384)
def _forms(text: str) -> _Forms:
    letters = _without_accents(text)
    joined = plain = apart = normalize(letters)
    if _HYPHEN.search(letters):
        joined, apart = normalize(_AROUND_HYPHEN.sub("", letters)), normalize(_HYPHEN.sub(" ", letters))
    elided = joined
    if _ELIDED.search(text):
        elided = normalize(_AROUND_HYPHEN.sub("", _without_accents(_ELIDED.sub(r"\1\2 ", text))))
    return _Forms(joined, plain, apart, elided)


def _without_accents(text: str) -> str:
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", apart).translate(_LETTERS))


def _contains_words(text: str, name: str) -> bool:
    """Whether a normalized text contains a normalized name at word boundaries."""
    start = text.find(name) if name else -1
    while start >= 0:
        end = start + len(name)
        if _is_boundary(text, start, is_end=False) and _is_boundary(text, end, is_end=True):
            return True
        start = text.find(name, start + 1)
    return False


def _is_boundary(text: str, place: int, *, is_end: bool) -> bool:
    """Whether a name may begin, or end, before the character at index `place`."""
    if place in (0, len(text)):
        return True
    before, after = text[place - 1], text[place]
    if " " in (before, after):
        return True
    # A mark belongs to the letter before it.
    if unicodedata.category(after).startswith("M") or _LEADING_VOWEL.match(before):
        return False
    scripts = {_script(before), _script(after)}
    if len(scripts) == 1:
        # Korean adds particles to a name without a space, and nothing before it: 서울은.
        return scripts == {"unspaced"} or (is_end and scripts == {"hangul"})
    return True


def _script(character: str) -> str:
    if _UNSPACED.match(character):
        return "unspaced"
    if _IS_KATAKANA.match(character):
        return "katakana"
    return "hangul" if _IS_HANGUL.match(character) else "spaced"
