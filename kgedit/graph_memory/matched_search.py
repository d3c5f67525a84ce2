"""Searches a memory with the relation matcher: questions in everyday wording, alone or after earlier turns.

A follow-up is read three ways, in this order: alone; with its pronoun replaced by a name of the earlier turns
("Where was he born?"); and as the earlier question about another name or time ("And Google?", "Who was it before?").
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgedit.graph_memory.chains import SHORTEST, ChainSearch, FoundChain, steps_of
from kgedit.graph_memory.dates import DatedQuestion, Period, TimedQuestion, period_of, read_time
from kgedit.graph_memory.facts import FactTable
from kgedit.graph_memory.follow_ups import PRONOUN, divided, is_asked_later, is_stated_before, repeats
from kgedit.graph_memory.gate import MatchGate
from kgedit.graph_memory.longer_names import (
    country_keys,
    is_another_side,
    is_of_another,
    means_another,
    name_goes_on,
    qualifying_countries,
    read_date_beside_names,
)
from kgedit.graph_memory.matched import Candidate, NamedText, candidates_of, evidence_of, is_written_small, selected
from kgedit.graph_memory.matching import BACK, RelationMatcher
from kgedit.graph_memory.name_lists import Span, lists_of, overlap, read_alone
from kgedit.graph_memory.other_names import OtherNames, combined, initials_of, is_bare_team, is_written_as_name, titles
from kgedit.graph_memory.relations import MASK, RelationIndex, content_stems, read_misspelt
from kgedit.graph_memory.retrieval import Finding, Retriever, Search, without_repeats
from kgedit.graph_memory.scoring import windows_of
from kgedit.graph_memory.yes_no import value_first
from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.wording.name_index import Mention, NameIndex, composed, name_key, words_of

_MOST_MENTIONS = 8
_MOST_EARLIER_TURNS = 6
_MOST_EARLIER_NAMES = 5
_LEAST_MISSPELT = 5
_LEAST_WORDINGS = 2
"""Relations whose wordings have a word, from which on it is none of a name in lower case."""
_NEAR = 0.35
"""Second relations of the best name are given too if they are at least 70 % as probable (the logarithm is 0.35)."""
_ABBREVIATED = re.compile(rf"\b{MASK}\.(?=\s[a-z])")
_LEAST_OF_CHAIN = 0.5
"""Least geometric mean of the probabilities of a chain's relations at which a question is taken to ask for it."""
_CHAIN_BEHIND = 1.0
"""How far, as a logarithm, a chain may be below the best shorter path: its probability has more factors."""
_PRESENT = re.compile(
    r"\b(?:now|nowadays|today|current(?:ly)?|these days|at present|at the moment|is|are|who['’]s|jetzt|heute|derzeit"
    r"|aktuell)\b",
    re.IGNORECASE,
)
_ARTICLES = frozenset(["a", "an", "and", "das", "der", "die", "el", "la", "las", "le", "les", "los", "or", "s", "the"])
_OF = re.compile(r"^(?:of|in) (?:the )?")
_SPORT = re.compile(
    r"\b(?:football|soccer|coach\w*|manager|trainer|trains|gaffer|squad|team|side|bench|dugout|touchline|national)\b",
    re.IGNORECASE,
)

Ranked = list[tuple[Candidate, float]]


@dataclass(frozen=True, slots=True)
class _Masked:
    """A name in a text and the windows around it; `together`: range of its list of names (name_lists), or its own."""

    mention: Mention
    text: str
    windows: tuple[str, ...]
    whole: str
    together: Span


class MatchedSearch:
    """Searches the parts of a memory.

    Args:
        names: Labels and aliases of subjects.
        others: Further names.
        relations: Relations by number.
        retriever: Walks and results.
        matcher: Relation matcher.
        gate: Gate fitted for the matcher.
        embed: Computes vectors of texts.
    """

    def __init__(
        self,
        names: NameIndex,
        others: OtherNames,
        relations: RelationIndex,
        retriever: Retriever,
        matcher: RelationMatcher,
        gate: MatchGate,
        embed: Embedder,
    ) -> None:
        self._names, self._others, self._relations = names, others, relations
        self._retriever, self._matcher, self._gate, self._embed = retriever, matcher, gate, embed

    @property
    def _facts(self) -> FactTable:
        return self._retriever.facts

    def find(self, conversations: Sequence[Sequence[str]], search: Search, as_of: str) -> list[Finding]:
        """Find the facts for the last turn of each conversation; one call of the embedder for all of them."""
        self._others.catch_up()
        turns = [
            [self._value_first(composed(turn)) for turn in conversation[-_MOST_EARLIER_TURNS:]]
            for conversation in conversations
        ]
        times = [self._time(several[-1], dated=search.dated and not as_of) for several in turns]
        own = [self._masked(time.text, search) for time in times]
        # The last turn of the same speaker: user and assistant speak in turn.
        times_before = [self._time(several[-3], dated=True) if len(several) > 2 else None for several in turns]
        asked_before = [[] if time is None else self._masked(time.text, search) for time in times_before]
        periods_before = [None if time is None or as_of or not search.dated else time.period for time in times_before]
        with_names = [
            self._with_earlier_names(several, time)
            if not mine or len(several) > 1
            else self._with_earlier_names(*divided(time))
            for several, time, mine in zip(turns, times, own, strict=True)
        ]
        everything = [each for group in (own, asked_before, with_names) for several in group for each in several]
        texts = {window for each in everything for window in (*each.windows, each.whole)}
        vectors = self._embedded(texts | _texts_of_chains(own, search))
        return [
            self._found(
                _Asked(time, period_of(as_of) if as_of else time.period, before, *groups),
                vectors,
                search,
            )
            for time, before, *groups in zip(times, periods_before, own, asked_before, with_names, strict=True)
        ]

    def _value_first(self, text: str) -> str:
        return value_first(text, lambda: [*self._names.find(text), *self._others.find(text)])

    def _time(self, text: str, *, dated: bool) -> TimedQuestion:
        """The time that is asked about."""
        found = read_date_beside_names(text, self._names.find, self._others.find) if dated else DatedQuestion(text, "")
        return read_time(found, text)

    def _found(self, asked: _Asked, vectors: Mapping[str, Vectors], search: Search) -> Finding:
        """The first reading that the gate accepts, or else the most probable one."""

        def rank(masked: Sequence[_Masked]) -> Ranked:
            return self._ranked(masked, vectors, search, asked.period)

        tried: list[Ranked] = [rank(asked.own)]
        repeated: Ranked = []
        chain = self._chain(asked, vectors, search)
        if chain is not None and _is_asked(chain, tried[0], search):
            paths = self._retriever.taken(chain.ranked(self._facts), search, asked.period, ended=True)
            return Finding(paths, chain.probability)
        if not _passes(tried[0], search) and (asked.before or asked.with_names):
            earlier = rank(asked.before)
            repeated = self._repeated(earlier, asked, search) if _passes(earlier, search) else []
            named = rank(asked.with_names)
            tried += [repeated, named] if asked.time.asks_history else [named, repeated]
        chosen = next((one for one in tried if _passes(one, search)), max(tried, key=_probability))
        if not chosen:
            return Finding()
        if not _passes(chosen, search):
            return Finding((), chosen[0][1], chosen[0][0].evidence)
        period = asked.repeated_period if chosen is repeated else asked.period
        walks = selected(chosen, search, self._facts, _NEAR)
        # Scores are probabilities of alternatives that were selected already: none is left out here.
        paths = self._retriever.taken(
            walks, replace(search, near=2.0), period, history=self._history(asked, chosen), ended=True
        )
        return Finding(paths, chosen[0][1], chosen[0][0].evidence)

    def _chain(self, asked: _Asked, vectors: Mapping[str, Vectors], search: Search) -> FoundChain | None:
        """The best chain of three or more facts from a name of the question."""
        if search.hops < SHORTEST:
            return None
        chains = ChainSearch(self._facts, self._relations, self._matcher)
        found = [
            chains.find(each.mention, _chain_window(each), vectors, search, asked.period)
            for each in asked.own
            if not each.mention.nested
        ]
        return max((each for each in found if each is not None), key=lambda each: each.score, default=None)

    def _history(self, asked: _Asked, chosen: Ranked) -> _History:
        whole = asked.time.asks_history or chosen[0][0].path[0].startswith(BACK)
        things = frozenset(thing for each in asked.own for thing in each.mention.subjects)
        return _History(self._facts, whole, things)

    def _repeated(self, earlier: Ranked, asked: _Asked, search: Search) -> Ranked:
        """The earlier question about the names of this turn, or about another time."""
        best, probability = earlier[0]
        turn = asked.time.text
        said = {word.text for each in asked.before for word in words_of(each.text)}
        if not repeats(turn, self.mentions(turn, misspelt=search.misspelt), said):
            return []
        if not asked.own:
            return earlier if asked.time.is_about_time else []
        path = tuple(name.removeprefix(BACK) for name in best.path)
        found = []
        for each in asked.own:
            walks = self._retriever.walks(
                each.mention, search.plain_hops, asked.repeated_period, ended=True, returning=True
            )
            for numbers, several in walks.items():
                if tuple(self._relations.identifiers[number] for number in numbers) == path:
                    named = replace(best.named, mention=each.mention)
                    found.append((Candidate(named, path, best.score, best.reading, several), probability))
        return found

    def _ranked(
        self, masked: Sequence[_Masked], vectors: Mapping[str, Vectors], search: Search, period: Period | None
    ) -> Ranked:
        """The best candidates of each name, most probable first, and further ones of the best name and its list."""
        bests: Ranked = []
        rest: list[tuple[int, Candidate]] = []
        texts = dict.fromkeys(text for each in masked for text in (*each.windows, each.whole))
        read = {text: self._matcher.read(text, vectors[text]) for text in texts}
        for each in masked:
            readings = [read[window] for window in each.windows]
            qualified = self._is_qualified(each.text, each.mention)
            named = NamedText(each.mention, each.text, readings, read[each.whole], each.together, qualified)
            walks = self._retriever.walks(each.mention, search.plain_hops, period, ended=True, returning=True)
            walks = without_repeats(walks, each.text)
            found = candidates_of(named, walks, self._facts, self._relations.identifiers)
            if found:
                evidence = evidence_of(found[0], found)
                probability = 0.0 if self._is_bare(each.text, masked) else self._gate.probability(evidence)
                bests.append((replace(found[0], evidence=evidence), probability))
                rest += [(len(bests) - 1, one) for one in found[1:]]
        order = _in_order(bests, search.gate, self._relations.catalogue.postings)
        together = bests[order[0]][0].named.together if order else None
        more = [(one, bests[place][1]) for place, one in rest if one.named.together == together]
        return [*(bests[place] for place in order), *more]

    def _is_bare(self, text: str, names: Sequence[_Masked]) -> bool:
        """Whether a text has no words besides names, and so asks for nothing; "Chancellor of Germany" asks."""
        spans = [_span(each.mention) for each in names]
        return all(
            word.text in _ARTICLES or any(overlap((word.start, word.end), span) for span in spans)
            for word in words_of(text)
        ) and not any(word.text in titles() for word in words_of(self._spelt(text)))

    def _masked(self, text: str, search: Search) -> list[_Masked]:
        mentions = self.mentions(text, misspelt=search.misspelt)
        stated = [each for each in mentions if is_stated_before(text, each, mentions)]
        mentions = [each for each in mentions if each not in stated]
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
            found.append(_Masked(each, text, tuple(dict.fromkeys(read)), self._spelt(max(windows, key=len)), together))
        return found

    def _spelt(self, window: str) -> str:
        return read_misspelt(window, self._relations.catalogue.postings)

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

    def _is_qualified(self, text: str, mention: Mention) -> bool:
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

    def _with_earlier_names(self, turns: Sequence[str], time: TimedQuestion) -> list[_Masked]:
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
            _Masked(each, text, windows, max(windows, key=len), _span(each))
            for each in list(names.values())[:_MOST_EARLIER_NAMES]
        ]

    def _embedded(self, texts: Iterable[str]) -> dict[str, Vectors]:
        ordered = sorted(texts)
        return dict(zip(ordered, self._embed(ordered), strict=True)) if ordered else {}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with the ways to read it, and the time that the earlier question was about."""

    time: TimedQuestion
    period: Period | None
    period_before: Period | None
    own: Sequence[_Masked]
    before: Sequence[_Masked]
    with_names: Sequence[_Masked]

    @property
    def repeated_period(self) -> Period | None:
        """Time that the earlier question is repeated about: its own if this one has another name and no time."""
        if self.period is not None or self.time.asks_history or not self.own or _PRESENT.search(self.time.text):
            return self.period
        return self.period_before


@dataclass(frozen=True, slots=True)
class _History:
    """Whether a row is given with its ended values: if the question asks for them, or names one of them."""

    facts: FactTable
    whole: bool
    things: frozenset[int]

    def __call__(self, row: int) -> bool:
        return self.whole or any(self.facts.thing_of(value) in self.things for value in self.facts.values_of(row))


def _texts_of_chains(own: Iterable[Sequence[_Masked]], search: Search) -> set[str]:
    if search.hops < SHORTEST:
        return set()
    return {
        step.text
        for several in own
        for each in several
        if not each.mention.nested
        for step in steps_of(_chain_window(each))
    }


def _chain_window(masked: _Masked) -> str:
    """The sentence with the name; the dot of an abbreviation after it ("Celtic F.C.") does not end the sentence."""
    abbreviated = _ABBREVIATED.search(masked.whole)
    return masked.windows[0] if abbreviated is None else _ABBREVIATED.sub(MASK, masked.whole)


def _is_asked(chain: FoundChain, ranked: Ranked, search: Search) -> bool:
    """Whether a question is about a chain rather than about the best shorter path."""
    shorter = ranked[0][0].score if ranked else -np.inf
    return chain.probability >= max(search.gate, _LEAST_OF_CHAIN) and chain.score >= shorter - _CHAIN_BEHIND


def _passes(ranked: Ranked, search: Search) -> bool:
    return _probability(ranked) >= search.gate if ranked else False


def _probability(ranked: Ranked) -> float:
    return ranked[0][1] if ranked else -1.0


def _in_order(bests: Ranked, gate: float, worded: Container[str]) -> list[int]:
    """Places of the best candidates of each name, most probable first.

    A part of a name that the gate accepts comes after it if both ask for the same. In "Who holds the office of the
    Prime Minister of Laos?" an entity "Prime Minister" is only a part of another's name, however well it fits. It also
    comes after it if it names another entity and the rest of the name has a word that asks for nothing: Denmark in
    "Which position does Margrethe II of Denmark hold?", but not France in "Who is the President of France?".

    Args:
        bests: Best candidate of each name.
        gate: Minimum probability of a name that is asked about.
        worded: Stems of the words that ask for relations.
    """

    def is_in_a_name(part: Mention, whole: Mention, text: str) -> bool:
        rest = f"{text[whole.start : part.start]} {text[part.end : whole.end]}"
        return not set(part.subjects) <= set(whole.subjects) and any(stem not in worded for stem in content_stems(rest))

    def rank(place: int) -> float:
        candidate, probability = bests[place]
        part, text = candidate.named.mention, candidate.named.text
        longer = [
            more
            for other, more in bests
            if more >= gate
            and _is_part(part, whole := other.named.mention)
            and (other.path == candidate.path or is_in_a_name(part, whole, text))
        ]
        return min([probability, *longer])

    return sorted(range(len(bests)), key=lambda place: (-rank(place), bests[place][0].named.mention.nested))


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
        and _is_part(name, one)
        and not any(word.text in titles() for word in words_of(text[one.start : one.end]))
        for one in others
    )


def _is_within(one: Mention, other: Mention) -> bool:
    """Whether a derived name is a part of a longer one: "Lopez" in "Jenifer Lopez"."""
    return one.derived and _is_part(one, other)


def _is_part(one: Mention, other: Mention) -> bool:
    return other.start <= one.start and one.end <= other.end and one.end - one.start < other.end - other.start


def _apart(one: Mention, other: Mention) -> bool:
    return one.end <= other.start or other.end <= one.start
