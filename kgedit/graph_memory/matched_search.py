"""Searches a memory with the relation matcher: questions in everyday wording, alone or after earlier turns.

A follow-up is read three ways, in this order: alone; with its pronoun replaced by a name of the earlier turns
("Where was he born?"); and as the earlier question about another name or time ("And Google?", "Who was it before?").
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgedit.graph_memory.asked_names import AskedNames, MaskedName, is_part
from kgedit.graph_memory.chains import SHORTEST, ChainSearch, FoundChain, steps_of
from kgedit.graph_memory.dates import DatedQuestion, Period, TimedQuestion, period_of, read_time
from kgedit.graph_memory.facts import FactTable
from kgedit.graph_memory.follow_ups import divided, repeats
from kgedit.graph_memory.gate import MatchGate
from kgedit.graph_memory.matched import Candidate, NamedText, candidates_of, evidence_of, selected
from kgedit.graph_memory.matching import BACK, RelationMatcher
from kgedit.graph_memory.relations import MASK, RelationIndex, content_stems
from kgedit.graph_memory.retrieval import Finding, Retriever, Search, without_repeats
from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.wording.name_index import Mention, composed, words_of

_MOST_EARLIER_TURNS = 6
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

Ranked = list[tuple[Candidate, float]]


class MatchedSearch:
    """Searches the parts of a memory.

    Args:
        asked: Finds names in questions.
        relations: Relations by number.
        retriever: Walks and results.
        matcher: Relation matcher.
        gate: Gate fitted for the matcher.
        embed: Computes vectors of texts.
    """

    def __init__(
        self,
        asked: AskedNames,
        relations: RelationIndex,
        retriever: Retriever,
        matcher: RelationMatcher,
        gate: MatchGate,
        embed: Embedder,
    ) -> None:
        self._asked_names, self._relations = asked, relations
        self._retriever, self._matcher, self._gate, self._embed = retriever, matcher, gate, embed

    @property
    def _facts(self) -> FactTable:
        return self._retriever.facts

    def find(self, conversations: Sequence[Sequence[str]], search: Search, as_of: str) -> list[Finding]:
        """Find the facts for the last turn of each conversation; one call of the embedder for all of them."""
        self._asked_names.catch_up()
        turns = [
            [self._asked_names.value_first(composed(turn)) for turn in conversation[-_MOST_EARLIER_TURNS:]]
            for conversation in conversations
        ]
        times = [self._time(several[-1], dated=search.dated and not as_of) for several in turns]
        own = [self._asked_names.masked(time.text, misspelt=search.misspelt) for time in times]
        # The last turn of the same speaker: user and assistant speak in turn.
        times_before = [self._time(several[-3], dated=True) if len(several) > 2 else None for several in turns]
        asked_before = [
            [] if time is None else self._asked_names.masked(time.text, misspelt=search.misspelt)
            for time in times_before
        ]
        periods_before = [None if time is None or as_of or not search.dated else time.period for time in times_before]
        with_names = [
            self._asked_names.with_earlier_names(several, time)
            if not mine or len(several) > 1
            else self._asked_names.with_earlier_names(*divided(time))
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

    def _time(self, text: str, *, dated: bool) -> TimedQuestion:
        """The time that is asked about."""
        found = self._asked_names.read_date(text) if dated else DatedQuestion(text, "")
        return read_time(found, text)

    def _found(self, asked: _Asked, vectors: Mapping[str, Vectors], search: Search) -> Finding:
        """The first reading that the gate accepts, or else the most probable one."""

        def rank(masked: Sequence[MaskedName]) -> Ranked:
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
        if not repeats(turn, self._asked_names.mentions(turn, misspelt=search.misspelt), said):
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
        self, masked: Sequence[MaskedName], vectors: Mapping[str, Vectors], search: Search, period: Period | None
    ) -> Ranked:
        """The best candidates of each name, most probable first, and further ones of the best name and its list."""
        bests: Ranked = []
        rest: list[tuple[int, Candidate]] = []
        texts = dict.fromkeys(text for each in masked for text in (*each.windows, each.whole))
        read = {text: self._matcher.read(text, vectors[text]) for text in texts}
        for each in masked:
            readings = [read[window] for window in each.windows]
            qualified = self._asked_names.is_qualified(each.text, each.mention)
            named = NamedText(each.mention, each.text, readings, read[each.whole], each.together, qualified)
            walks = self._retriever.walks(each.mention, search.plain_hops, period, ended=True, returning=True)
            walks = without_repeats(walks, each.text)
            found = candidates_of(named, walks, self._facts, self._relations.identifiers)
            if found:
                evidence = evidence_of(found[0], found)
                probability = 0.0 if self._asked_names.is_bare(each.text, masked) else self._gate.probability(evidence)
                bests.append((replace(found[0], evidence=evidence), probability))
                rest += [(len(bests) - 1, one) for one in found[1:]]
        order = _in_order(bests, search.gate, self._relations.catalogue.postings)
        together = bests[order[0]][0].named.together if order else None
        more = [(one, bests[place][1]) for place, one in rest if one.named.together == together]
        return [*(bests[place] for place in order), *more]

    def _embedded(self, texts: Iterable[str]) -> dict[str, Vectors]:
        ordered = sorted(texts)
        return dict(zip(ordered, self._embed(ordered), strict=True)) if ordered else {}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with the ways to read it, and the time that the earlier question was about."""

    time: TimedQuestion
    period: Period | None
    period_before: Period | None
    own: Sequence[MaskedName]
    before: Sequence[MaskedName]
    with_names: Sequence[MaskedName]

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


def _texts_of_chains(own: Iterable[Sequence[MaskedName]], search: Search) -> set[str]:
    if search.hops < SHORTEST:
        return set()
    return {
        step.text
        for several in own
        for each in several
        if not each.mention.nested
        for step in steps_of(_chain_window(each))
    }


def _chain_window(masked: MaskedName) -> str:
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
            and is_part(part, whole := other.named.mention)
            and (other.path == candidate.path or is_in_a_name(part, whole, text))
        ]
        return min([probability, *longer])

    return sorted(range(len(bests)), key=lambda place: (-rank(place), bests[place][0].named.mention.nested))
