"""Names of a memory's entities besides labels and aliases of its subjects: nicknames, surnames, and names of values.

Nicknames are from a list or are short forms of a label: "Man City", "the German chancellor", "Tesla" for "Tesla, Inc.".
They and surnames are less certain than labels and aliases, so an index keeps them apart. Values have names here so that
"Is Merkel still chancellor?" finds the row that had her as a value. The index is derived from the facts and is not
saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kgedit.graph_memory.facts import FactTable
from kgedit.resources import data_folder
from kgedit.wording.catalogues import read_catalogue
from kgedit.wording.name_index import Mention, NameIndex, name_key

_OF_PERSONS = frozenset(
    ["P19", "P20", "P26", "P27", "P39", "P54", "P69", "P102", "P106", "P108", "P166", "P509", "P1365"]
)
"""Relations whose subjects are persons."""
_GIVE_PERSONS = frozenset(["P6", "P26", "P35", "P112", "P169", "P286", "P488", "P1037", "P1308", "P1365"])
BACK_FROM = frozenset(["P6", "P35", "P36", "P112", "P127", "P169", "P286", "P488", "P1037", "P1308"])
"""Relations whose values are found by name."""

_MOST_BEARERS = 4
"""A derived name of more entities than this says too little."""
_SHORT = 4


class OtherNames:
    """Index of derived names, extended with the facts that were learned since the last call.

    Args:
        facts: Facts of the memory.
        relation_ids: Ids of relations, by number; the list may grow.
        more: Further names of a label, such as adjectives of another language.
    """

    def __init__(
        self, facts: FactTable, relation_ids: list[str], more: Callable[[str], Sequence[str]] = lambda _: ()
    ) -> None:
        self._facts, self._relation_ids, self._more = facts, relation_ids, more
        self._names, self._values = NameIndex(), NameIndex()
        self._rows = self._facts_read = 0

    def catch_up(self) -> None:
        """Index the facts that were learned since the last call."""
        facts = self._facts
        if self._facts_read == len(facts):
            return
        rows = np.arange(self._rows, facts.rows, dtype=np.int32)
        of_relation = np.array([name in _OF_PERSONS for name in self._relation_ids])
        subjects: dict[int, bool] = {}
        for row, relation in zip(rows.tolist(), facts.relations_of(rows).tolist(), strict=True):
            subject = facts.subject_of(row)
            subjects[subject] = subjects.get(subject, False) or bool(of_relation[relation])
        values: dict[int, bool] = {}
        for row, thing in facts.row_things(self._facts_read):
            name = self._relation_ids[int(facts.relations_of(np.array([row]))[0])]
            if name in BACK_FROM:
                values[thing] = values.get(thing, False) or name in _GIVE_PERSONS
        self._add(self._values, dict.fromkeys(values, True), own=True)
        persons = {thing: subjects.get(thing, False) or values.get(thing, False) for thing in {**subjects, **values}}
        self._add(self._names, persons, own=False)
        self._rows, self._facts_read = facts.rows, len(facts)

    def find(self, text: str) -> list[Mention]:
        """Derived names and names of values in a composed text."""
        derived = [
            Mention(each.subjects, each.start, each.end, nested=False, derived=True)
            for each in self._names.find(text)
            if len(each.subjects) <= _MOST_BEARERS
        ]
        return [*self._values.find(text), *derived]

    def find_genitives(self, text: str) -> list[Mention]:
        """Derived names and names of values with a genitive s (kgedit.wording.name_index.NameIndex.find_genitives)."""
        derived = [replace(each, derived=True) for each in self._names.find_genitives(text)]
        return [*self._values.find_genitives(text), *(each for each in derived if len(each.subjects) <= _MOST_BEARERS)]

    def find_misspelt(self, text: str) -> list[Mention]:
        """Names with one misspelt word."""
        return [*self._values.find_misspelt(text), *self._names.find_misspelt(text)]

    def _add(self, index: NameIndex, entities: dict[int, bool], *, own: bool) -> None:
        pairs = [
            (name, thing)
            for thing, person in entities.items()
            if (label := self._facts.label(thing))
            for name in ([label] if own else [*nicknames_of(label, person=person), *self._more(label)])
        ]
        index.extend([name for name, _ in pairs], [thing for _, thing in pairs])


def is_written_as_name(text: str, mention: Mention) -> bool:
    """Whether a mention is written as a name: short and common words need a capital letter, and "I" is never one.

    In a text without any capital, only short ones need it.
    """
    written = text[mention.start : mention.end]
    if written in ("I", "A"):
        return False
    if not written.islower():
        return True
    return len(written) > 1 and not (written in capital_words() and (len(written) < _SHORT or not text.islower()))


def combined(mentions: list[Mention]) -> list[Mention]:
    """Mentions with equal ranges merged, certain ones apart from derived ones; those inside longer ones are nested."""
    merged: dict[tuple[int, int, bool], Mention] = {}
    for each in mentions:
        key = (each.start, each.end, each.derived)
        known = merged.get(key, each)
        subjects = tuple(dict.fromkeys((*known.subjects, *each.subjects)))
        merged[key] = replace(known, subjects=subjects)
    ranges = {(each.start, each.end) for each in mentions}
    return [
        replace(
            each, nested=any(a <= each.start and each.end <= b and (a, b) != (each.start, each.end) for a, b in ranges)
        )
        for _, each in sorted(merged.items())
    ]


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
