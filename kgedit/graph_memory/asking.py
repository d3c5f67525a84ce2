"""Answers one question from a memory: the facts of each hop, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kgedit.graph_memory.graph_memory import GraphMemory, Unused
from kgedit.graph_memory.retrieval import Finding, FoundPath, Remembered, Search

_REASONS: dict[Unused, str] = {
    "no fact": "the memory contains no current fact of {names}",
    "no fact then": "the memory contains no fact of {names} {when}",
    "not asked": "the memory contains facts of {names}, but the question asks for none of them",
    "excluded": "the question is not about {names} (words of the question, parts of longer names, or next to words "
    "that mean another subject)",
}


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """Facts that a memory has for a question.

    Attributes:
        question: Text of the question.
        as_of: Requested day as an ISO date; "" means now, or the date in the question.
        finding: Facts to prepend to the question.
        closest: The best path if the gate rejected every path; None if the question names no known subject.
        names: Known names in the question, each with the ids of all entities of that name.
        gate: Minimum probability that was required.
        unused: Reason for each name if nothing was found.
    """

    question: str
    as_of: str
    finding: Finding
    closest: FoundPath | None
    names: tuple[tuple[str, tuple[str, ...]], ...]
    gate: float
    unused: Mapping[str, Unused] = field(default_factory=dict)

    @property
    def why_nothing(self) -> str:
        """Reason why no fact was found; "" if one was."""
        if self.finding.paths:
            return ""
        if not self.names:
            return "no subject of the memory is named in the question"
        if self.closest is None or self.finding.probability is None:
            return "; ".join(
                text.format(names=", ".join(names), when=f"as of {self.as_of}" if self.as_of else "at that time")
                for reason, text in _REASONS.items()
                if (names := [name for name, why in self.unused.items() if why == reason])
            )
        path = " > ".join(row.question for row in self.closest.rows)
        return (
            f"no known fact is likely to be what is asked for: the nearest is '{path}', with probability "
            f"{self.finding.probability:.2f} (the gate opens at {self.gate:g})"
        )

    def record(self) -> dict[str, Any]:
        """The answer as JSON values."""
        return {
            "question": self.question,
            "as_of": self.as_of or None,
            "names": [{"name": name, "ids": list(ids)} for name, ids in self.names],
            "probability": self.finding.probability,
            "gate": self.gate,
            "paths": [
                {"score": path.score, "facts": [_fact(row, hop) for hop, row in enumerate(path.rows, start=1)]}
                for path in self.finding.paths
            ],
            "why_nothing": self.why_nothing or None,
        }


def ask_memory(memory: GraphMemory, question: str, search: Search, *, as_of: str = "") -> MemoryAnswer:
    """Answer one question.

    Args:
        memory: The memory to query.
        question: Text of the question.
        search: Search options.
        as_of: ISO date of any precision; "" means now, or the date in the question.
    """
    [finding] = memory.find([question], search, as_of=as_of)
    closest, unused = None, dict[str, Unused]()
    if not finding.paths:
        [anything] = memory.find([question], replace(search, gate=0.0), as_of=as_of)
        closest = anything.paths[0] if anything.paths else None
        unused = memory.why_unused(question, search, as_of=as_of)
    return MemoryAnswer(question, as_of, finding, closest, tuple(memory.names_in(question)), search.gate, unused)


def _fact(row: Remembered, hop: int) -> dict[str, Any]:
    return {
        "hop": hop,
        "subject": row.subject,
        "relation": row.relation,
        "question": row.question,
        "answer": row.answer,
        "values": [
            {"label": value.label, "since": value.since or None, "until": value.until or None, "case_id": value.case_id}
            for value in row.values
        ],
    }
