"""Names that a question may be about, and the question as each of them is read in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgedit.graph_memory.dates import DatedQuestion, TimedQuestion
from kgedit.graph_memory.facts import FactTable
from kgedit.graph_memory.follow_ups import PRONOUN, is_asked_later, is_stated_before
from kgedit.graph_memory.longer_names import (
    country_keys,
    is_another_side,
    is_of_another,
    means_another,
    name_goes_on,
    qualifying_countries,
    read_date_beside_names,
)
from kgedit.graph_memory.matched import is_written_small
from kgedit.graph_memory.name_lists import Span, lists_of, overlap, read_alone
from kgedit.graph_memory.other_names import OtherNames, combined, initials_of, is_bare_team, is_written_as_name, titles
from kgedit.graph_memory.relations import MASK, RelationIndex, content_stems, read_misspelt
from kgedit.graph_memory.scoring import windows_of
from kgedit.graph_memory.yes_no import value_first
from kgedit.wording.name_index import Mention, NameIndex, name_key, words_of

_MOST_MENTIONS = 8
_MOST_EARLIER_NAMES = 5
_LEAST_MISSPELT = 5
_LEAST_WORDINGS = 2
"""Relations whose wordings have a word, from which on it is none of a name in lower case."""
_ARTICLES = frozenset(["a", "an", "and", "das", "der", "die", "el", "la", "las", "le", "les", "los", "or", "s", "the"])
_OF = re.compile(r"^(?:of|in) (?:the )?")
_SPORT = re.compile(
    r"\b(?:football|soccer|coach\w*|manager|trainer|trains|gaffer|squad|team|side|bench|dugout|touchline|national)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class MaskedName:
    """A name in a text and the windows around it; `together`: range of its list of names (name_lists), or its own."""

    mention: Mention
    text: str
    windows: tuple[str, ...]
    whole: str
    together: Span


class AskedNames:
    """Finds names in questions.

    Args:
        names: Labels and aliases of subjects.
        others: Further names.
        relations: Relations, whose wordings a name may be written like.
        facts: Facts of the memory.
    """

    def __init__(self, names: NameIndex, others: OtherNames, relations: RelationIndex, facts: FactTable) -> None:
        self._names, self._others, self._relations, self._facts = names, others, relations, facts

    def catch_up(self) -> None:
        """Read the facts that were learned since the last call."""
        self._others.catch_up()

    def read_date(self, text: str) -> DatedQuestion:
        """A composed text and its date; a year in a name is none."""
        return read_date_beside_names(text, self._names.find, self._others.find)

    def is_bare(self, text: str, names: Sequence[MaskedName]) -> bool:
        """Whether a text has no words besides names, and so asks for nothing; "Chancellor of Germany" asks."""
        spans = [_span(each.mention) for each in names]
        return all(
            word.text in _ARTICLES or any(overlap((word.start, word.end), span) for span in spans)
            for word in words_of(text)
        ) and not any(word.text in titles() for word in words_of(self._spelt(text)))

    def masked(self, text: str, *, misspelt: bool) -> list[MaskedName]:
        """Names that a composed text may be about, each with the windows around it."""
        mentions = self.asked(text, misspelt=misspelt)
        proper = [
            each
            for each in mentions
            if self._is_proper(each) and not self._is_wording(text, each) and not is_written_small(text, each)
        ]
        outer = [one for one in proper if not one.nested]
        lists = lists_of(text, [_without_office(text, one, proper) for one in outer])
        found = []
        for each in mentions:
            name = _span(each)
            apart = [_span(one) for one in outer if _apart(one, each)]
            alone, (start, end), others = read_alone(text, name, apart, lists)
            windows = windows_of(alone, start, end, others)
            if is_asked_later(text, each, mentions):
                windows = [max(windows, key=len)]
            # "Is X in NATO?" asks for another relation than "Is X in Y?": the sentence counts with its names, too.
            named = windows_of(alone, start, end)[:1] if others and len(windows) > 1 else []
            read = [self._spelt(window) for window in dict.fromkeys([*windows, *named])]
            listed = (one for one in lists if any(overlap(item, name) for item in one))
            together = next(((one[0][0], one[-1][1]) for one in listed), name)
            found.append(
                MaskedName(each, text, tuple(dict.fromkeys(read)), self._spelt(max(windows, key=len)), together)
            )
        return found

    def _spelt(self, window: str) -> str:
        return read_misspelt(window, self._relations.catalogue.postings)

    def asked(self, text: str, *, misspelt: bool) -> list[Mention]:
        """Names that a composed text may be about: `mentions` without those in a statement before a question."""
        mentions = self.mentions(text, misspelt=misspelt)
        return [each for each in mentions if not is_stated_before(text, each, mentions)]

    def mentions(self, text: str, *, misspelt: bool) -> list[Mention]:
        """Names in a composed text, at most `_MOST_MENTIONS`, those inside longer ones last."""
        found = [*self._names.find(text), *self._others.find(text)]
        genitives = [*self._names.find_genitives(text), *self._others.find_genitives(text)]
        found += [each for each in genitives if all(_apart(each, one) for one in found)]
        found = [each for each in found if is_written_as_name(text, each) and not self._is_wording(text, each)]
        for _ in range(2):  # once a part of a longer name is gone, the mention beside it may turn out to be one as well
            found = [each for each in found if not self._goes_on(text, each, found)]
        found = [each for each in found if self._is_meant(text, each)]
        if misspelt:
            near = [*self._names.find_misspelt(text), *self._others.find_misspelt(text)]
            found += [
                replace(each, misspelt=True)
                for each in near
                if self._may_be_misspelt(text[each.start : each.end])
                and all(_apart(each, one) or _is_within(one, each) for one in found)
            ]
        found = [named for each in found if (named := self._qualified(text, each)) is not None]
        found = [
            each for each in combined(found) if not (each.derived and each.nested and _is_in_label(text, each, found))
        ]
        return sorted(found, key=lambda one: (one.nested, one.start))[:_MOST_MENTIONS]

    def _is_meant(self, text: str, mention: Mention) -> bool:
        """Whether a country's name may mean its national team, where the mention is of the team."""
        written = text[mention.start : mention.end]
        labels = [self._facts.label(each) for each in mention.subjects]
        if mention.derived and not written.isupper() and all(initials_of(each) == written.upper() for each in labels):
            return False  # "mit", "who"
        teams = mention.derived and all(is_bare_team(written, each) for each in labels)
        return not teams or _SPORT.search(text) is not None

    def _qualified(self, text: str, mention: Mention) -> Mention | None:
        """A mention without the entities that the words around it exclude; None if they exclude all."""
        if means_another(text, mention.start, mention.end):
            return None
        sides = [
            each
            for each in mention.subjects
            if not is_another_side(text, mention.start, mention.end, [self._facts.label(each)])
            and not is_of_another(text, mention.end, self._facts.label(each))
        ]
        if not sides:
            return None
        mention = replace(mention, subjects=tuple(sides))
        shared = len(mention.subjects) > 1 and not mention.derived
        allowed = qualifying_countries(text, mention.start, mention.end, shared=shared)
        if not allowed:
            return mention
        countries = {each: self._countries(each) for each in mention.subjects}
        there = [each for each in mention.subjects if countries[each] & allowed]
        kept = there or [each for each in mention.subjects if not countries[each]]
        return replace(mention, subjects=tuple(kept)) if kept else None

    def is_qualified(self, text: str, mention: Mention) -> bool:
        """Whether a name is followed by the country of one of its entities, or by a country if theirs are not known."""
        allowed = qualifying_countries(text, mention.start, mention.end)
        if not allowed:
            return False
        countries = frozenset[str]().union(*(self._countries(each) for each in mention.subjects))
        following = f"{_OF.sub('', name_key(text[mention.end :]))} "
        return bool(countries & allowed) if countries else any(following.startswith(f"{each} ") for each in allowed)

    def _countries(self, thing: int) -> frozenset[str]:
        """Keys of the countries of an entity: itself, or among its values, or among those of its values."""
        things = np.array([thing], dtype=np.int32)
        for _ in range(3):
            if found := country_keys(self._facts.label(each) for each in things.tolist()):
                return found
            things = np.unique(self._facts.steps(things)[2])
        return frozenset()

    def _goes_on(self, text: str, mention: Mention, others: Sequence[Mention]) -> bool:
        labels = [self._facts.label(subject) for subject in mention.subjects]
        return name_goes_on(text, mention, labels, others)

    def _may_be_misspelt(self, written: str) -> bool:
        """Whether a word is in no wording: a misspelt name is not made of the words of questions alone.

        A short capitalized word is taken for another name: "Intel" is not a misspelt Inter.
        """
        known = self._relations.catalogue.postings
        return len(written) >= _LEAST_MISSPELT + written[0].isupper() and not all(
            stem in known for stem in content_stems(written)
        )

    def _is_wording(self, text: str, mention: Mention) -> bool:
        """Whether a name is written like the words of a question: "chancellor", "PM", "party", an alias or not."""
        written = text[mention.start : mention.end]
        if (written.isupper() or written.islower()) and written.lower() in titles():
            return True
        known = self._relations.catalogue.postings
        return (
            written.islower()
            and len(written.split()) == 1
            and (all if "-" in written else any)(
                len(known.get(stem, ())) >= _LEAST_WORDINGS for stem in content_stems(written)
            )
        )

    def _is_proper(self, mention: Mention) -> bool:
        return any(self._facts.label(subject)[:1].isupper() for subject in mention.subjects)

    def with_earlier_names(self, turns: Sequence[str], time: TimedQuestion) -> list[MaskedName]:
        """The last turn with its first pronoun replaced by each name of the earlier turns, latest first."""
        found = PRONOUN.search(time.text)
        if found is None or len(turns) < 2:
            return []
        ending = "'s" if found["of"] else ""
        text = f"{time.text[: found.start()]}{MASK}{ending}{time.text[found.end() :]}"
        names: dict[tuple[int, ...], Mention] = {}
        for turn in reversed(turns[:-1]):
            for each in self.mentions(turn, misspelt=False):
                if self._is_proper(each):
                    names.setdefault(each.subjects, replace(each, start=found.start(), end=found.start() + 1))
        windows = tuple(self._spelt(window) for window in windows_of(text, found.start(), found.start() + 1))
        return [
            MaskedName(each, text, windows, max(windows, key=len), _span(each))
            for each in list(names.values())[:_MOST_EARLIER_NAMES]
        ]

    def value_first(self, text: str) -> str:
        """A composed text, as by kgedit.graph_memory.yes_no.value_first."""
        return value_first(text, lambda: [*self._names.find(text), *self._others.find(text)])


def _without_office(text: str, name: Mention, names: Sequence[Mention]) -> Span:
    """Range of a name, without the office before it: the country in "prime minister of Sweden"."""
    for one in names:
        before = words_of(text[name.start : one.start])
        if one.end == name.end and before and all(word.text in titles() | {"of", "the"} for word in before):
            return _span(one)
    return _span(name)


def _span(mention: Mention) -> Span:
    return mention.start, mention.end


def _is_in_label(text: str, name: Mention, others: Sequence[Mention]) -> bool:
    """Whether a name is a part of another entity's label or alias that is no office: "University of Lyon"."""
    return any(
        not (one.derived or one.misspelt or set(name.subjects) & set(one.subjects))
        and is_part(name, one)
        and not any(word.text in titles() for word in words_of(text[one.start : one.end]))
        for one in others
    )


def _is_within(one: Mention, other: Mention) -> bool:
    """Whether a derived name is a part of a longer one: "Lopez" in "Jenifer Lopez"."""
    return one.derived and is_part(one, other)


def is_part(one: Mention, other: Mention) -> bool:
    return other.start <= one.start and one.end <= other.end and one.end - one.start < other.end - other.start


def _apart(one: Mention, other: Mention) -> bool:
    return one.end <= other.start or other.end <= one.start
