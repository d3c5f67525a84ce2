"""The memory: learns edits as a graph, and finds the facts that a question needs, both hops of a two-hop one.

What is ranked is the path of relations, not the fact: a path is worded like the question or it is not, whichever
subject it starts from. Only the questions are embedded when one is asked; learning embeds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgedit.llm.embeddings import Embedder, Vectors
from kgedit.memory.facts import FactTable, Value
from kgedit.memory.relations import SLOT, CatalogueWordings, RelationIndex, best_cosine, content_stems, windows_of
from kgedit.records.cases import Case
from kgedit.wikidata.names import Mention, NameIndex, composed, name_key

Path_ = tuple[int, ...]
_MOST_PATHS = 4000
_MOST_MENTIONS = 12
_AT_ONCE = 256
_NESTED = 0.1
_PER_HOP = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How a question is answered.

    Attributes:
        k: Most facts for a question.
        hops: Relations of the longest path.
        gate: Least score; a question whose best path scores less gets nothing.
        margin: A question gets nothing either if it is worded that much more like a relation that the subject lacks.
        near: Paths that score at most this much less than the best one are taken too.
        word_weight: What the share of telling words counts, beside a cosine.
        misspelt: Whether a question without any known name is searched for names with one wrong letter.
    """

    k: int = 8
    hops: int = 2
    gate: float = 0.5
    margin: float = 0.05
    near: float = 0.05
    word_weight: float = 0.4
    misspelt: bool = True


@dataclass(frozen=True, slots=True)
class Remembered:
    """A row that was found for a question.

    Attributes:
        question: The row's own question.
        values: Those that held, in the order in which they were learned.
        row: Its number.
        subject: Id of its subject.
        relation: Id of its relation.
    """

    question: str
    values: tuple[Value, ...]
    row: int
    subject: str
    relation: str

    @property
    def answer(self) -> str:
        """Its values as they are told, several apart by semicolons."""
        return "; ".join(dict.fromkeys(value.label for value in self.values))

    @property
    def case_ids(self) -> tuple[str, ...]:
        """The edits that brought the values."""
        return tuple(value.case_id for value in self.values if value.case_id)


@dataclass(frozen=True, slots=True)
class FoundPath:
    """Rows that lead from a subject of the question to an answer, with what their relations scored."""

    rows: tuple[Remembered, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found for one question.

    Attributes:
        paths: Best first; none where the gate was closed.
        best: The score of the best path of all, whatever the gate; None without a known subject.
        rival: By how much a relation that no path ends in is worded more like the question than the best path; may be
            negative. None without a known subject.
    """

    paths: tuple[FoundPath, ...] = ()
    best: float | None = None
    rival: float | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A path of relations from one mention, with every way of rows to walk it."""

    mention: int
    relations: Path_
    walks: tuple[tuple[int, ...], ...]
    nested: bool


class GraphMemory:
    """Edits as a graph that is asked in words.

    Args:
        embed: Computes the vectors of texts.
        catalogue: Wordings of relations; None for those that come with kgedit.
    """

    def __init__(self, embed: Embedder, *, catalogue: Path | None = None) -> None:
        self._embed, self._catalogue = embed, CatalogueWordings(embed, catalogue)
        self.clear()

    def __len__(self) -> int:
        """Facts that were learned, ended ones included."""
        return len(self._facts)

    def clear(self) -> None:
        """Forget everything."""
        self._facts = FactTable()
        self._names = NameIndex()
        self._relations = RelationIndex(self._embed, self._catalogue)
        self._wordings: dict[str, int] = {}
        self._worded: list[str] = []
        self._aliases: list[tuple[int, str]] = []

    def learn(self, cases: Iterable[Case]) -> None:
        """Add edits; what a case says was so before ends with it."""
        for case in cases:
            fact = case.fact
            since = _date_of(case.timestep)
            subject = self._facts.number(fact.subject or name_key(fact.subject_label), fact.subject_label)
            self._names.add(fact.subject_label, subject)
            wording = self._wording(case.question, fact.subject_label)
            # A relation without an id is known by its wording.
            relation = self._relations.number(fact.property or self._worded[wording], fact.property_label)
            if SLOT in self._worded[wording]:
                self._relations.add_question(relation, self._worded[wording])
            row = self._facts.row(subject, relation, wording=wording)
            for identifier, label in zip(case.old_objects, case.old_answers, strict=False):
                thing = self._facts.number(identifier, label)
                if not self._facts.end(row, thing, until=since or "?"):
                    self._facts.add_value(row, thing, label, case_id="", since="", until=since or "?")
            thing = self._facts.number(fact.object or name_key(fact.object_label), fact.object_label)
            self._facts.end(row, thing, until=since or "?")
            self._facts.add_value(row, thing, case.answer, case_id=case.case_id, since=since)

    def add_aliases(self, identifier: str, aliases: Sequence[str]) -> None:
        """Let a subject be found by further names."""
        number = self._facts.number(identifier)
        for alias in aliases:
            self._names.add(alias, number)
            self._aliases.append((number, alias))

    def find(self, questions: Sequence[str], search: Search = Search(), *, as_of: str = "") -> list[Finding]:
        """The facts that questions need.

        Args:
            questions: As asked.
            search: How.
            as_of: ISO date of which the facts should be; "" for now.

        Returns:
            A finding for each question, which does not depend on the others.
        """
        found: list[Finding] = []
        for start in range(0, len(questions), _AT_ONCE):
            texts = [composed(question) for question in questions[start : start + _AT_ONCE]]
            mentions = [self._mentions(text, misspelt=search.misspelt) for text in texts]
            windows = [
                [windows_of(text, mention.start, mention.end) for mention in several]
                for text, several in zip(texts, mentions, strict=True)
            ]
            vectors = self._embedded({window for several in windows for each in several for window in each})
            for text, several, each in zip(texts, mentions, windows, strict=True):
                looked_at = [np.stack([vectors[window] for window in own]) for own in each]
                found.append(self._find(text, several, looked_at, search, as_of))
        return found

    def state(self) -> dict[str, Any]:
        """Everything as JSON values."""
        relations = self._relations.relations
        return {
            "things": [
                [identifier, label] for identifier, label in zip(self._facts.ids, self._facts.labels, strict=True)
            ],
            "relations": [[relation.identifier, relation.name] for relation in relations],
            "questions": [relation.questions for relation in relations],
            "wordings": self._worded,
            "rows": self._facts.as_records(),
            "order": self._facts.order(),
            "aliases": [list(pair) for pair in self._aliases],
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        self.clear()
        for identifier, label in state["things"]:
            self._facts.number(identifier, label)
        for (identifier, name), questions in zip(state["relations"], state["questions"], strict=True):
            number = self._relations.number(identifier, name)
            for question in questions:
                self._relations.add_question(number, question)
        self._worded = list(state["wordings"])
        self._wordings = {wording: number for number, wording in enumerate(self._worded)}
        rows = [
            (self._facts.row(subject, relation, wording=wording), iter(values))
            for subject, relation, wording, values in state["rows"]
        ]
        for number in state["order"]:
            row, values = rows[number]
            thing, label, case_id, since, until = next(values)
            self._facts.add_value(row, thing, label, case_id=case_id, since=since, until=until)
        for subject, *_ in state["rows"]:
            self._names.add(self._facts.labels[subject], subject)
        for number, alias in state["aliases"]:
            self._names.add(alias, number)
            self._aliases.append((number, alias))

    def _wording(self, question: str, label: str) -> int:
        """The number of a question with the subject's label as a slot; without the label in it, of the question."""
        worded = question.replace(label, SLOT, 1) if label and SLOT not in question else question
        number = self._wordings.setdefault(worded, len(self._worded))
        if number == len(self._worded):
            self._worded.append(worded)
        return number

    def _mentions(self, text: str, *, misspelt: bool) -> list[Mention]:
        found = self._names.find(text)
        if not found and misspelt:
            found = self._names.find_misspelt(text)
        return sorted(found, key=lambda mention: (mention.nested, mention.start))[:_MOST_MENTIONS]

    def _embedded(self, texts: set[str]) -> dict[str, Vectors]:
        ordered = sorted(texts)
        return dict(zip(ordered, self._embed(ordered), strict=True)) if ordered else {}

    def _find(
        self, text: str, mentions: Sequence[Mention], windows: Sequence[Vectors], search: Search, as_of: str
    ) -> Finding:
        candidates = [
            candidate
            for index, mention in enumerate(mentions)
            for candidate in self._candidates(index, mention, search.hops, as_of)
        ]
        if not candidates:
            return Finding()
        wordings = self._relations.vectors([candidate.relations for candidate in candidates])
        stems = [content_stems(text[: mention.start] + " " + text[mention.end :]) for mention in mentions]
        scores = [
            best_cosine(windows[candidate.mention], vectors)
            + search.word_weight * self._relations.share(stems[candidate.mention], candidate.relations)
            + _PER_HOP * (len(candidate.relations) - 1)
            - _NESTED * candidate.nested
            for candidate, vectors in zip(candidates, wordings, strict=True)
        ]
        best = max(scores)
        rival = self._rival(candidates, scores, windows, wordings)
        if best < search.gate or rival > search.margin:
            return Finding(best=best, rival=rival)
        return Finding(self._taken(candidates, scores, search, as_of), best, rival)

    def _rival(
        self,
        candidates: Sequence[_Candidate],
        scores: Sequence[float],
        windows: Sequence[Vectors],
        wordings: Sequence[Vectors],
    ) -> float:
        """How much more like the question than the best path a relation is worded that no path of it ends in."""
        best = int(np.argmax(scores))
        mention = candidates[best].mention
        names, vectors = self._catalogue.questions
        ends = {
            self._relations.relations[number].identifier
            for candidate in candidates
            if candidate.mention == mention
            for number in candidate.relations
        }
        others = np.array([name not in ends for name in names], dtype=bool)
        if not others.any():
            return -1.0
        # Both in the window that speaks for the path: the rest of the text may be about anything.
        cosines = (windows[mention] @ wordings[best].T).max(axis=1)
        window = windows[mention][int(cosines.argmax())]
        return float((vectors[others] @ window).max() - cosines.max())

    def _candidates(self, index: int, mention: Mention, hops: int, as_of: str) -> Iterator[_Candidate]:
        """The paths of relations from the subjects of a name."""
        walks: dict[Path_, list[tuple[int, ...]]] = defaultdict(list)
        count = 0
        for subject in mention.subjects:
            for walk in self._walks(subject, hops, as_of):
                walks[tuple(self._facts.relation_of(row) for row in walk)].append(walk)
                count += 1
                if count >= _MOST_PATHS:
                    break
        for relations, several in walks.items():
            yield _Candidate(index, relations, tuple(several), mention.nested)

    def _walks(self, subject: int, hops: int, as_of: str) -> Iterator[tuple[int, ...]]:
        """Paths of rows from a subject, short ones first, never through the same subject twice."""
        ahead: list[tuple[tuple[int, ...], frozenset[int], int]] = [((), frozenset((subject,)), subject)]
        for _ in range(hops):
            further = []
            for rows, seen, here in ahead:
                for row in self._facts.rows_of(here):
                    fresh = [value.thing for value in self._facts.values(row, as_of=as_of) if value.thing not in seen]
                    if fresh:
                        yield (*rows, row)
                        further += [((*rows, row), seen | {thing}, thing) for thing in fresh]
            ahead = further

    def _taken(
        self, candidates: Sequence[_Candidate], scores: Sequence[float], search: Search, as_of: str
    ) -> tuple[FoundPath, ...]:
        """Whole paths, best first and of equal ones the later learned, as long as there is room for their rows."""
        least = max(scores) - search.near
        ranked = sorted(
            (
                (score, max(self._facts.learned(row) for row in walk), walk)
                for candidate, score in zip(candidates, scores, strict=True)
                if score >= least
                for walk in candidate.walks
            ),
            reverse=True,
        )
        taken, rows = [], set[int]()
        for score, _, walk in ranked:
            if len(rows | set(walk)) > search.k:
                continue
            if not set(walk) <= rows:
                taken.append(FoundPath(tuple(self._remembered(row, as_of) for row in walk), score))
                rows |= set(walk)
        return tuple(taken)

    def _remembered(self, row: int, as_of: str) -> Remembered:
        facts, subject = self._facts, self._facts.subject_of(row)
        return Remembered(
            question=self._worded[facts.wording_of(row)].replace(SLOT, facts.labels[subject]),
            values=tuple(facts.values(row, as_of=as_of)),
            row=row,
            subject=facts.ids[subject],
            relation=self._relations.relations[facts.relation_of(row)].identifier,
        )


def _date_of(timestep: str) -> str:
    """ISO date of the newer snapshot of a timestep "FROM_TO"; "" for edits of a file."""
    newer = timestep.rpartition("_")[2]
    return f"{newer[:4]}-{newer[4:6]}-{newer[6:]}" if len(newer) == 8 and newer.isdigit() else ""
