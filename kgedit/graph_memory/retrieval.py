"""Finds facts from the names in a question: options of a search, its results, and the walk from names to facts.

The walk follows facts, ranks paths of relations and selects the best.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kgedit.columns import Numbers
from kgedit.graph_memory.dates import Period
from kgedit.graph_memory.facts import FactTable, MemoryValue
from kgedit.graph_memory.gate import Evidence, Gate, MatchEvidence
from kgedit.graph_memory.languages import Lexicon
from kgedit.graph_memory.relations import SLOT, RelationIndex, all_stems, content_stems
from kgedit.graph_memory.scoring import PathScores, QuestionWindow, RelationPath, evidence_for, score_paths
from kgedit.wording.name_index import Mention


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Options of a search.

    Attributes:
        k: Maximum number of facts for a question.
        hops: Maximum number of relations in a path, at most 4. Paths of three and four relations are only for questions
            that name as many (kgedit.graph_memory.chains), and need the relation matcher.
        gate: Least probability that the best path answers the question (kgedit.graph_memory.gate); 0 accepts any path.
        near: Paths whose score is at most this much below the best are returned too.
        word_weight: Weight of the share of shared content words, relative to the cosine.
        misspelt: Whether to look for names with one wrong letter if the question contains no known name.
        dated: Whether a date in the question ("in 2019", "as of March 2021") selects the facts of that time.
    """

    k: int = 8
    hops: int = 4
    gate: float = 0.5
    near: float = 0.05
    word_weight: float = 0.4
    misspelt: bool = True
    dated: bool = True

    @property
    def plain_hops(self) -> int:
        """Maximum number of relations in a path for a question that is not about a chain."""
        return min(self.hops, 2)


@dataclass(frozen=True, slots=True)
class Remembered:
    """Values of one subject and relation, found for a question.

    Attributes:
        question: Question that the values answer. Includes a description if several subjects share the name.
        values: Values that held at the requested time, in the order in which they were learned.
        row: Number of the row.
        subject: Id of the subject.
        relation: Id of the relation.
        bridged: The question with the previous hop in parentheses, "Who owns Ajax (the sports team of Jonas)?";
            equal to `question` for the first hop.
        conflict: Whether several values are current although other subjects have one.
        left_out: Number of further values, where a text has no room for all.
    """

    question: str
    values: tuple[MemoryValue, ...]
    row: int
    subject: str
    relation: str
    bridged: str
    conflict: bool = False
    left_out: int = 0

    @property
    def answer(self) -> str:
        """Labels of the values, joined by semicolons."""
        return "; ".join(dict.fromkeys(value.label for value in self.values))

    @property
    def case_ids(self) -> tuple[str, ...]:
        """Ids of the edits that added the values."""
        return tuple(value.case_id for value in self.values if value.case_id)


@dataclass(frozen=True, slots=True)
class FoundPath:
    """Rows that lead from a subject of the question to an answer, with the score of their relations."""

    rows: tuple[Remembered, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a search for one question.

    Attributes:
        paths: Best first; empty if the gate rejected them.
        probability: Probability that the best path answers the question, before the gate; None without a known subject.
        evidence: Features behind the probability; None without a known subject.
    """

    paths: tuple[FoundPath, ...] = ()
    probability: float | None = None
    evidence: Evidence | MatchEvidence | None = None


def reading_order(paths: Sequence[FoundPath]) -> list[Remembered]:
    """Facts of paths in the order of a prompt: the best path last, next to the question; each path from its first hop.

    Args:
        paths: Paths, best first. Every fact occurs once in the result.
    """
    seen: set[int] = set()
    ordered: list[Remembered] = []
    for path in paths:
        fresh = [row for row in path.rows if row.row not in seen]
        seen |= {row.row for row in fresh}
        ordered = fresh + ordered
    return ordered


Walk = tuple[int, ...]
"""Rows along a walk, starting at a subject."""

_MOST_WALKS = 4000
_NESTED = 0.1
_PER_HOP = 0.02
_DESCRIBED = 0.2


@dataclass(frozen=True, slots=True)
class _Scored:
    """Paths from one mention, with their scores, total scores, and walks."""

    mention: Mention
    windows: Sequence[QuestionWindow]
    scores: PathScores
    totals: NDArray[np.float64]
    walks: Sequence[Sequence[Walk]]

    @property
    def best(self) -> float:
        return float(self.totals.max())


@dataclass(frozen=True, slots=True)
class RankedWalk:
    """A walk with its score and the number of its most recently learned value."""

    score: float
    learned: int
    walk: Walk


@dataclass(frozen=True, slots=True)
class Retriever:
    """Finds facts in a memory.

    Attributes:
        facts: Facts of the memory.
        relations: Wordings of relations.
        wordings: Questions of rows by number, with a slot for the subject.
        description: Description that distinguishes an entity from its namesakes, by number.
        has_namesake: Whether another subject of the memory has an entity's label, by number.
        gate: Accepts or rejects the best path.
        conflicts: Rows with conflicting values.
        lexicon: Language of the wordings; None for English.
    """

    facts: FactTable
    relations: RelationIndex
    wordings: Sequence[str]
    description: Callable[[int], str]
    has_namesake: Callable[[int], bool]
    gate: Gate
    conflicts: Container[int] = frozenset()
    lexicon: Lexicon | None = None

    def find(
        self,
        mentions: Sequence[Mention],
        windows: Sequence[Sequence[QuestionWindow]],
        walks: Sequence[Mapping[RelationPath, list[Walk]]],
        search: Search,
        period: Period | None,
    ) -> Finding:
        """Find the facts for one question.

        Args:
            mentions: Names in the question.
            windows: Windows of each mention.
            walks: Result of `walks` for each mention.
            search: Search options.
            period: Time in which the facts must hold; None means now.
        """
        scored = [
            self._scored(mention, own, walked, search)
            for mention, own, walked in zip(mentions, windows, walks, strict=True)
            if walked
        ]
        if not scored:
            return Finding()
        best = max(scored, key=lambda each: each.best)
        place = int(best.totals.argmax())
        evidence = evidence_for(best.scores, place, best.windows, self.relations)
        probability = self.gate.probability(evidence)
        if probability < search.gate:
            return Finding((), probability, evidence)
        ranked = [walk for each in scored for walk in self._ranked(each, search.near)]
        return Finding(self.taken(ranked, search, period), probability, evidence)

    def _scored(
        self,
        mention: Mention,
        windows: Sequence[QuestionWindow],
        walks: Mapping[RelationPath, list[Walk]],
        search: Search,
    ) -> _Scored:
        paths = list(walks)
        scores = score_paths(paths, windows, self.relations, word_weight=search.word_weight)
        longer = np.array([len(path) - 1 for path in paths])
        totals = scores.totals + _PER_HOP * longer - _NESTED * mention.nested
        return _Scored(mention, windows, scores, totals, list(walks.values()))

    def walks(
        self, mention: Mention, hops: int, period: Period | None, *, ended: bool = False, returning: bool = False
    ) -> dict[RelationPath, list[Walk]]:
        """Walks from the subjects of a mention, by relations, short ones first; no walk visits an entity twice.

        With `ended`, rows without a current value are walked along the value that ended last. With `returning`, walks
        may lead back to where they began: the prime minister's citizenship is the country.
        """
        subjects: Numbers = np.array(mention.subjects, dtype=np.int32)
        found: dict[RelationPath, list[Walk]] = {}
        rows: list[Numbers] = []
        seen: list[Numbers] = [subjects]
        count = 0
        for _ in range(hops):
            places, more, things = self.facts.steps(seen[-1], period, ended=ended)
            avoided = seen[1:] if returning and len(seen) > 1 else seen
            fresh = np.logical_and.reduce([things != before[places] for before in avoided])
            places, more, things = places[fresh], more[fresh], things[fresh]
            rows, seen = [*(before[places] for before in rows), more], [*(before[places] for before in seen), things]
            if not len(more) or count >= _MOST_WALKS:
                break
            walked = [column[: _MOST_WALKS - count] for column in _distinct(rows)]
            relations = [self.facts.relations_of(column) for column in walked]
            for path, walk in zip(_tuples(relations), _tuples(walked), strict=True):
                found.setdefault(path, []).append(walk)
            count += len(walked[0])
        return found

    def _ranked(self, scored: _Scored, near: float) -> list[RankedWalk]:
        """Walks of one mention whose score is at most `near` below its best; descriptions rank namesakes."""
        bonus = self._bonus(scored.mention, scored.windows)
        most = max(bonus.values(), default=0.0)
        worth = [
            (score + bonus.get(self.facts.subject_of(walk[0]), 0.0), walk)
            for score, walks in zip(scored.totals.tolist(), scored.walks, strict=True)
            if score + most >= scored.best - near
            for walk in walks
        ]
        least = max(score for score, _ in worth) - near
        return [
            RankedWalk(score, max(self.facts.learned(row) for row in walk), walk)
            for score, walk in worth
            if score >= least
        ]

    def _bonus(self, mention: Mention, windows: Sequence[QuestionWindow]) -> dict[int, float]:
        """Score bonus of each namesake: the share of its description's words that occur in the question."""
        if len(mention.subjects) == 1:
            return {}
        asked = {stem for window in windows for stem in window.stems}
        shares = {}
        for subject in mention.subjects:
            stems = content_stems(self.description(subject))
            shares[subject] = _DESCRIBED * sum(stem in asked for stem in stems) / len(stems) if stems else 0.0
        return shares

    def taken(
        self,
        ranked: Sequence[RankedWalk],
        search: Search,
        period: Period | None,
        *,
        history: Callable[[int], bool] = lambda _row: False,
        ended: bool = False,
    ) -> tuple[FoundPath, ...]:
        """Select whole paths, best first, the later learned among equals, until `search.k` rows are selected.

        Args:
            ranked: Walks with their scores.
            search: Search options; walks that score more than `near` below the best are left out.
            period: Time in which values must hold; None means now.
            history: Whether a row is given with all its values, ended ones included.
            ended: See kgedit.graph_memory.facts.FactTable.values.
        """
        least = max(each.score for each in ranked) - search.near
        taken: list[RankedWalk] = []
        rows = set[int]()
        for each in sorted(ranked, key=lambda one: (one.score, one.learned, one.walk), reverse=True):
            if each.score < least:
                break
            if len(rows | set(each.walk)) <= search.k and not set(each.walk) <= rows:
                taken.append(each)
                rows |= set(each.walk)
        shared = {subject for row in rows if self.has_namesake(subject := self.facts.subject_of(row))}
        return tuple(
            FoundPath(
                tuple(
                    self._remembered(
                        row, before, shared, self._values(row, before, period, history=history(row), ended=ended)
                    )
                    for before, row in zip((None, *each.walk), each.walk, strict=False)
                ),
                each.score,
            )
            for each in taken
        )

    def _values(
        self, row: int, before: int | None, period: Period | None, *, history: bool, ended: bool
    ) -> tuple[MemoryValue, ...]:
        """Values of a row; the subject of the previous row is none if both have the same relation."""
        values = tuple(self.facts.all_values(row) if history else self.facts.values(row, period, ended=ended))
        if before is None or self._relation_of(before) != self._relation_of(row):
            return values
        start = self.facts.subject_of(before)
        return tuple(each for each in values if each.thing != start) or values

    def _remembered(
        self, row: int, before: int | None, shared: set[int], values: tuple[MemoryValue, ...]
    ) -> Remembered:
        """The row of a path as a result; `before` is the previous row, or None."""
        subject = self.facts.subject_of(row)
        label = self.facts.label(subject)
        bridge = hint = ""
        if before is not None:
            phrase = self.relations.relations[self._relation_of(before)].phrase
            bridge = f" ({phrase.replace(SLOT, self.facts.label(self.facts.subject_of(before)))})"
        if subject in shared and (described := self.description(subject)):
            hint = f" ({described})"
        return Remembered(
            question=self._said(row, label, hint),
            values=values,
            row=row,
            subject=self.facts.ids[subject],
            relation=self.relations.identifiers[self._relation_of(row)],
            bridged=self._said(row, label, hint + bridge),
            conflict=row in self.conflicts and sum(not value.until for value in values) > 1,
        )

    def _said(self, row: int, label: str, more: str) -> str:
        """Question of a row about its subject's label and the text after it."""
        wording = self.wordings[self.facts.wording_of(row)]
        if self.lexicon is None:
            return wording.replace(SLOT, label + more)
        _, rows, _ = self.facts.steps(np.array([self.facts.subject_of(row)]), ended=True)
        relations = {self.relations.identifiers[number] for number in self.facts.relations_of(rows).tolist()}
        return self.lexicon.fill(wording, label, more, relations=relations)

    def _relation_of(self, row: int) -> int:
        return int(self.facts.relations_of(np.array([row]))[0])


def without_repeats(walks: Mapping[RelationPath, list[Walk]], text: str) -> dict[RelationPath, list[Walk]]:
    """Walks for a text. Only if a word occurs twice in it may a relation: "the owner of the owner"."""
    stems = all_stems(text)
    if len(set(stems)) < len(stems):
        return dict(walks)
    return {path: several for path, several in walks.items() if all(one != other for one, other in pairwise(path))}


def _distinct(columns: Sequence[Numbers]) -> list[Numbers]:
    """Columns of the distinct walks, sorted by their rows."""
    if len(columns) == 1:
        return [np.unique(columns[0])]
    if len(columns) == 2:  # one key for both rows: sorting tuples takes several times as long
        keys = np.unique(columns[0].astype(np.int64) << 32 | columns[1])
        return [(keys >> 32).astype(np.int32), (keys & 0xFFFF_FFFF).astype(np.int32)]
    return list(np.unique(np.stack(columns, axis=1), axis=0).T)


def _tuples(columns: Sequence[Numbers]) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)
