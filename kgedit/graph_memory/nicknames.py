"""Other names that people use for an entity: by a list, by a short form of its label, or by a surname.

"Man City", "the German chancellor", "Tesla" for "Tesla, Inc.", "Merkel". They are less certain than labels and aliases,
so that an index keeps them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.name_index import name_key

_CLUB_LETTERS = "|".join(
    r"\.?".join(letters) + r"\.?"
    for letters in (
        *("FC", "SC", "SV", "AC", "AS", "AFC", "RC", "FK", "KV", "SK", "CD", "UD", "PFC", "CF", "BC", "IF", "ES", "AJ"),
        *("OGC", "RCD", "SSC", "FSV", "TSG", "TSV", "BK", "IK", "KRC", "KAA", "RSC", "NK", "HNK", "GNK", "CFR", "SCO"),
    )
)
_CLUB = re.compile(
    rf"^(?:\d\.\s*)?(?:{_CLUB_LETTERS}|VfL|VfB)\s+"
    rf"|\s+(?:{_CLUB_LETTERS}|Football Club|Futbol Club|Fútbol Club|Futebol Clube|Fotboll"
    r"|Fodbold|Club de Fútbol|Calcio)$"
)
_COMPANY = re.compile(r",?\s+(?:Inc|Ltd|LLC|PLC|plc|Corp|Corporation|Group|Company|Platforms|AG|SE|GmbH|N\.V|S\.A)\.?$")
_TEAM = re.compile(r"^(?P<country>.+?) (?P<women>women's )?national (?:association )?football team$")
_TITLE = re.compile(r",? (?:Jr|Sr)\.?$|,.*$|\s+of [A-Z]\w+$")
_INITIAL = re.compile(r"[^\W\d_]+")
_LEAST_INITIALS, _LONGEST_LINK = 3, 4
_LEAST_SURNAME = 4  # shorter ones (Li, May) are shared by many people, or are words
_PARTICLES = frozenset(
    [
        "al",
        "bin",
        "da",
        "de",
        "del",
        "della",
        "den",
        "der",
        "di",
        "do",
        "dos",
        "du",
        "e",
        "el",
        "la",
        "le",
        "ten",
        "ter",
        "und",
        "van",
        "von",
        "y",
    ]
)


@cache
def shipped_nicknames() -> Mapping[str, tuple[str, ...]]:
    """Names of prompts/memory/nicknames.yaml, by the key of the label (kgedit.wording.name_index.name_key)."""
    entries: Mapping[str, Sequence[str]] = _shipped()["names"]
    return {name_key(label): tuple(names) for labels, names in entries.items() for label in labels.split(" / ")}


@cache
def capital_words() -> frozenset[str]:
    """Words that are names only with a capital letter."""
    return frozenset(_shipped()["capital"])


@cache
def titles() -> frozenset[str]:
    """Titles and offices that are written next to a name without being a part of it, in lower case."""
    return frozenset(_shipped()["titles"])


@cache
def sentence_words() -> frozenset[str]:
    """Words that may have a capital letter next to a name without being a part of it, in lower case."""
    return frozenset(_shipped()["sentence"])


@cache
def asking_words() -> frozenset[str]:
    """Words that ask for relations and are often misspelt, in lower case."""
    return frozenset(_shipped()["asking"])


@cache
def ordinary_words() -> frozenset[str]:
    """Words that are one letter away from one of `asking_words` and are no misspelling of it, in lower case."""
    return frozenset(_shipped()["ordinary"])


@cache
def _shipped() -> Mapping[str, Any]:
    return read_catalogue(data_folder("prompts") / "memory" / "nicknames.yaml")


def nicknames_of(label: str, *, person: bool) -> list[str]:
    """Other names of an entity with this label, without the label.

    Args:
        label: Label of the entity.
        person: Whether it is a person, who is also known by the surname.
    """
    short = list(_surnames(label) if person else _short_forms(label))
    listed = (
        name for form in (label, *(() if person else short)) for name in shipped_nicknames().get(name_key(form), ())
    )
    found = [*listed, *short]
    return [name for name in dict.fromkeys(found) if name and name_key(name) != name_key(label)]


def initials_of(label: str) -> str:
    """Initials of a label's capitalized words: "FIA"; "" if there are fewer than three, or words without a capital.

    Short words such as "of" and "de l'" have none, nor do abbreviations.
    """
    words = _INITIAL.findall(label)
    if len(words) < _LEAST_INITIALS or any(len(word) > _LONGEST_LINK and word[0].islower() for word in words):
        return ""
    found = "".join(word[0] for word in words if word[0].isupper() and not word.isupper())
    return found if len(found) >= _LEAST_INITIALS else ""


def is_bare_team(written: str, label: str) -> bool:
    """Whether a national team is written as its country alone, which means the team only where sport is mentioned."""
    found = _TEAM.match(label)
    return found is not None and name_key(written) == name_key(found["country"])


def _surnames(label: str) -> Iterator[str]:
    plain = _TITLE.sub("", label)
    words = plain.split()
    if not all(word[:1].isupper() or word.lower() in _PARTICLES for word in words):
        return  # "chairman of the Social Democratic Party" has the relations of a person
    if len(words) > 1 and len(words[-1]) >= _LEAST_SURNAME and words[-1][0].isupper():
        yield words[-1]
    if len(words) > 2 and words[-2][0].isupper() and len(words[-2]) > 2:
        yield " ".join(words[-2:])
        yield f"{words[0]} {words[-1]}"


def _short_forms(label: str) -> Iterator[str]:
    if "." in label:
        yield label.replace(".", "")  # "FC Nantes" for "F.C. Nantes"
    if initials := initials_of(label):
        yield initials
    for pattern in (_CLUB, _COMPANY):
        short = pattern.sub("", label)
        if short != label and len(short) > 3:
            yield short
    if found := _TEAM.match(label):
        country, women = found["country"], found["women"] or ""
        kinds = ("national team", "national football team", "national side", "football team")
        for name in (country, *shipped_nicknames().get(name_key(country), ())[:1]):
            yield from (f"{name} {women}{kind}" for kind in kinds)
        if not women:
            yield country  # see is_bare_team
