"""Search options of a memory, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgedit.graph_memory.facts import MemoryValue
from kgedit.graph_memory.gate import Evidence, MatchEvidence


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
    """

    question: str
    values: tuple[MemoryValue, ...]
    row: int
    subject: str
    relation: str
    bridged: str
    conflict: bool = False

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
