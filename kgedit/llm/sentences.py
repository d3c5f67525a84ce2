"""Where the first sentence of an answer ends.

Stops such as "。" end a sentence. A period ends most, and is a part of "A.S. Roma", "St. Louis", "3.5" and
"1. FC Köln" as well. Often only the text after a period shows what it is: decoding goes on while the end is
unknown. What is known stays so, whatever follows, so that an answer is the same whether it was cut at once or from the
whole text.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words(
    "adm brig capt cmdr col cpl dr fr gen gov hon lt maj mlle mme mr mrs ms msgr prof rep rev sen sgt st sta ste "
    "ave blvd dept dist ft hwy mt mtn rd sq aka al approx ca cf eg etc feat ie incl viz vs "
    "assn assoc bros co corp esq inc inst intl jr ltd llc ph phd sr univ"
)
"""Words written with a period that stands before a name more often than at an end."""
_BEFORE_NUMBERS = _words("art ch est fig figs no nos nr op pp pt sec vol vols jan feb apr aug sept oct nov dec")
"""Those that are abbreviations before a number only: "No. 10", and "No. It is Paris"."""
_OPENERS = _words(
    "A After All Also An And As At Because Before But By During For From He Her Here His However How I If In It Its My "
    "Now On Our She Since So That The Their Then There These They This Those Though Thus To Until We What When Where "
    "Which While Who Why With Yes You Your"
)
"""Words that open a sentence and hardly ever go on with a name: ahead of them an abbreviation ended one."""

_CLOSERS = "\"'”’»)]」』》）】"
_STOPS = "。｡！？।॥۔።။។"
"""End a sentence outside quotations, since abbreviations have none of them: full-width and half-width stops, danda,
Urdu's, Ethiopic's, Burmese's and Khmer's full stop."""
SENTENCE_ENDS = (".", *_STOPS)
"""What may end a sentence. "!" and "?" end none: they are parts of names such as Yahoo!"""
_PERIODS = re.compile(rf"\.+|[{_STOPS}]+")
_QUOTES = (("「", "」"), ("『", "』"), ("《", "》"), ("（", "）"), ("【", "】"), ("“", "”"))
_WORD_BEFORE = re.compile(r"[^\s\"'“”‘’«»(\[\])]+$")
_INITIALS = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]")
"""Of "J.", "A.S." and "J.-P.", all ahead of the last period."""
_WORD_AFTER = re.compile(r"\s+[\"'“‘«(\[]*(\w[\w’'-]*)?(.?)", re.DOTALL)
"""The next word, and a character behind it: without one, the word may still be growing."""
_ORDINAL = re.compile(r"\d{1,2}")
_DIVISION = re.compile(r"[A-ZÄÖÜ]{2,4}|\w*[Ll]ig[ae]|Division")
"""What an ordinal stands before in names of clubs and leagues, as in "1. FC Köln" and "2. Bundesliga"."""
_SHORTEST_WORD_RUN_TOGETHER = 3


def first_sentence(text: str) -> str:
    """The first sentence of a whole text, its period included; all of it where none ends."""
    end = sentence_end(text, is_whole=True)
    return text if end is None else text[:end]


def sentence_end(text: str, *, is_whole: bool) -> int | None:
    """How long the first sentence is.

    Args:
        text: A text, or as much of it as there is so far.
        is_whole: Whether nothing follows.

    Returns:
        Its length in characters, with its period and what closes behind it. None where no sentence ends, or where that
        depends on what follows.
    """
    if not is_whole:
        text = text.rstrip("\N{REPLACEMENT CHARACTER}")  # half a character, until its other half is decoded
    for match in _PERIODS.finditer(text):
        behind = text[match.end() :].lstrip(_CLOSERS)
        end = len(text) - len(behind)
        if not behind:
            return end if is_whole else None
        if match.group()[0] in _STOPS:
            if _is_quoted(text[: match.start()]) or not text[: match.start()].strip():
                continue
            return end
        ends = _ends_sentence(text[: match.start()], behind, is_whole=is_whole)
        if ends is None:
            return None
        if ends:
            return end
    return None


def _is_quoted(text: str) -> bool:
    """Whether a text ends within a quotation or a title, such as before the stop in 『けいおん！』."""
    return any(text.count(opener) > text.count(closer) for opener, closer in _QUOTES)


def _ends_sentence(before: str, behind: str, *, is_whole: bool) -> bool | None:
    """Whether a period between two texts ends a sentence; None where it takes more text to tell."""
    if not before.strip():
        return False
    found = _WORD_BEFORE.search(before)
    word = found.group() if found else ""
    after = _WORD_AFTER.match(behind)
    if after is None:
        return _is_run_together(word, behind)
    if not (_is_short(word) or _ORDINAL.fullmatch(word) or word.lower() in _BEFORE_NUMBERS):
        return True
    following, next_character = after.group(1) or "", after.group(2)
    if not (next_character or is_whole):
        return None
    if len(following) == 1 and next_character == ".":  # one more initial, were it A or I
        return False
    return _opens_sentence(before.removesuffix(word), word, following)


def _is_run_together(word: str, behind: str) -> bool:
    """Whether only a space lacks between two sentences, as in "It is Paris.The capital", not in "3.5" and "A.S."."""
    is_word = word.isalpha() and len(word) >= _SHORTEST_WORD_RUN_TOGETHER and not _is_short(word)
    return is_word and behind[0].isupper()


def _is_short(word: str) -> bool:
    """Whether a word is initials or an abbreviation."""
    return bool(_INITIALS.fullmatch(word)) or word.lower() in _ABBREVIATIONS


def _opens_sentence(before: str, word: str, following: str) -> bool:
    """Whether a word opens a sentence behind initials, an abbreviation or a number."""
    if _is_short(word):
        return following in _OPENERS
    if word.lower() in _BEFORE_NUMBERS:
        return not following[:1].isdecimal()
    begins_list = not before.strip()
    return not (begins_list or following[:1].islower() or _DIVISION.fullmatch(following))
