"""What a memory is asked with, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.graph_memory.facts import MemoryValue
from kgedit.graph_memory.gate import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How a question is answered.

    Attributes:
        k: Most facts for a question.
        hops: Relations of the longest path.
        gate: Least probability that the best path answers the question (kgedit.graph_memory.gate); 0 accepts any path.
        near: Paths that score at most this much less than the best one are taken too.
        word_weight: What the share of telling words counts, beside a cosine.
        misspelt: Whether a question without any known name is searched for names with one wrong letter.
        dated: Whether a date in the question ("in 2019", "as of March 2021") chooses what held then.
    """

    k: int = 8
    hops: int = 2
    gate: float = 0.5
    near: float = 0.05
    word_weight: float = 0.4
    misspelt: bool = True
    dated: bool = True


@dataclass(frozen=True, slots=True)
class Remembered:
    """A row that was found for a question.

    Attributes:
        question: The row's own question; where two subjects of one name were found, with what tells this one apart.
        values: Those that held, in the order in which they were learned.
        row: Its number.
        subject: Id of its subject.
        relation: Id of its relation.
        bridged: The question with how the path came to its subject in brackets, "Who owns Ajax (the sports team of
            Jonas)?"; for the first row of a path the question itself.
    """

    question: str
    values: tuple[MemoryValue, ...]
    row: int
    subject: str
    relation: str
    bridged: str

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
        probability: That the best path of all is what was asked for, whatever the gate; None without a known subject.
        evidence: What that rests on; None without a known subject.
    """

    paths: tuple[FoundPath, ...] = ()
    probability: float | None = None
    evidence: Evidence | None = None
