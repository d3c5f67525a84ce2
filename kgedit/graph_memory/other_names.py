"""Names of a memory's entities besides labels and aliases of its subjects: nicknames, surnames, and names of values.

Values have names here so that "Is Merkel still chancellor?" finds the row that had her as a value. The index is derived
from the facts and is not saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kgedit.graph_memory.facts import FactTable
from kgedit.graph_memory.nicknames import capital_words, nicknames_of
from kgedit.wording.name_index import Mention, NameIndex, name_key

_OF_PERSONS = frozenset(
    ["P19", "P20", "P26", "P27", "P39", "P54", "P69", "P102", "P106", "P108", "P166", "P509", "P1365"]
)
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
        more: Further names by the key of the label (kgedit.wording.name_index.name_key), such as adjectives of
            another language.
    """

    def __init__(
        self, facts: FactTable, relation_ids: list[str], more: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._facts, self._relation_ids, self._more = facts, relation_ids, more or {}
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
            for name in (
                [label] if own else [*nicknames_of(label, person=person), *self._more.get(name_key(label), ())]
            )
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
