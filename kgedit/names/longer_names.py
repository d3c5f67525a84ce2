"""Recognizes longer names around a known one: "Cristiano Ronaldo" is not the entity with the label "Ronaldo".

Only capital letters show where a name ends, so that texts without them, titles ("Who Is The King") and German, which
capitalizes nouns, are not judged. A capitalized word next to a name belongs to it unless it is a title or an office
("King", "Coach"), a word of the language ("Is"), the legal form of a company, or a part of another known name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgedit.names.index import Mention, name_key
from kgedit.names.nicknames import sentence_words, titles

_BEFORE = re.compile(r"(?P<word>[^\W\d_][\w.'’]*)[ \u00a0-]$")
_AFTER = re.compile(r"^[ \u00a0-](?P<word>[^\W\d_]\w*)")
_REGNAL = re.compile(r"[IVX]+")
_BEGINS_SENTENCE = re.compile(r"(?:^|[.!?:;,…\"“”„«»()\[\]\n–—]\s*|\s-\s+)$")
_WORD = re.compile(r"[^\W\d_]{3,}")
_IN_TITLE_CASE = 0.75
"""Share of capitalized words from which on capital letters say nothing."""
_GERMAN = re.compile(
    r"\b(?:ist|wer|wo|wie|welche[rsmn]?|wurde|das|dem|für|hat|heißt|gehört|spielt|ich|und)\b", re.IGNORECASE
)

_LEGAL_FORMS = frozenset(
    ["ag", "co", "company", "corp", "corporation", "gmbh", "group", "holding", "inc", "limited", "llc", "ltd", "plc"]
) | {"sa", "se", "spa"}


def name_goes_on(text: str, mention: Mention, labels: Sequence[str], others: Sequence[Mention]) -> bool:
    """Whether the name in a text is longer than the mention of it.

    Args:
        text: The composed text.
        mention: The mention.
        labels: Labels of its entities.
        others: All mentions of the text; words inside those apart from the mention do not belong to its name.
    """
    written = text[mention.start : mention.end]
    if not written[:1].isupper() or (written.isupper() and len(written) == 1) or _shows_nothing(text):
        return False
    before, after = _BEFORE.search(text[: mention.start]), _AFTER.match(text[mention.end :])
    if before is not None:
        word = before["word"]
        starts = _BEGINS_SENTENCE.search(text[: before.start()]) is not None
        named = _is_in_other(before.start(), mention, others)
        if not named and _belongs(word, starts=starts) and not _is_given_name(word, mention, written, labels):
            return True
    if after is None or mention.derived:
        return False
    word = after["word"]
    if _REGNAL.fullmatch(word):
        return True
    return _belongs(word, starts=False) and not _is_in_other(mention.end + 1, mention, others)


def _shows_nothing(text: str) -> bool:
    words = _WORD.findall(text)
    capital = sum(word[0].isupper() for word in words)
    return _GERMAN.search(text) is not None or (len(words) > 4 and capital / len(words) > _IN_TITLE_CASE)


def _belongs(word: str, *, starts: bool) -> bool:
    """Whether a word next to a name is a part of a longer one; the first word of a sentence may be any."""
    key = name_key(word.rstrip(".'’"))
    return (
        word[0].isupper()
        and not starts
        and not (word.isupper() and len(word) > 1)
        and not word.endswith(("'s", "’s", "'", "’", "."))
        and not any(key in known for known in (sentence_words(), _LEGAL_FORMS, titles()))
    )


def _is_given_name(word: str, mention: Mention, written: str, labels: Sequence[str]) -> bool:
    """Whether the word before a surname or another short form may be a form of the entity's own given name.

    "Dame Lillard" is Damian Lillard; "Fritz Merkel" is not Angela Merkel.
    """
    if not mention.derived:
        return False
    inside = [label.partition(f" {written} ")[0].split() for label in labels if f" {written} " in label]
    if inside:  # "Man United" is Manchester United F.C., and "Maidenhead United" is not
        return any(part.lower().startswith(word.lower()) for parts in inside for part in parts)
    surnames = [label.split() for label in labels if label.endswith(f" {written}")]
    return not surnames or any(part[0] == word[0] for parts in surnames for part in parts[:-1])


def _is_in_other(place: int, mention: Mention, others: Sequence[Mention]) -> bool:
    return any(
        each.start <= place < each.end and (each.end <= mention.start or mention.end <= each.start) for each in others
    )
