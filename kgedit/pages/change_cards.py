"""Data of the page's cards: every case of a timestep, and every dropped change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgedit.pages.shell import NOTHING, Numbered
from kgedit.records.cases import Case, Fact, Probe
from kgedit.timesteps.changes import read_dropped
from kgedit.timesteps.edit_files import Edits
from kgedit.timesteps.timestep import Timestep

MOST_DROPPED = 20_000
"""Maximum number of dropped changes on a page, divided evenly among the reasons; counts always include all."""

_ASKED = ("update", "rephrase", "personas", "alias", "crosslingual", "consequence")


@dataclass(frozen=True, slots=True)
class Card:
    """One case with additional information.

    Attributes:
        case: The case.
        confidence: Confidence of its kind, in [0, 1].
        signals: Signals that led to the kind.
        topic: Class of the subject.
        basis: Basis of the similarity of its locality probe.
        similarity: Similarity by that basis.
    """

    case: Case
    confidence: float | None = None
    signals: tuple[str, ...] = ()
    topic: str | None = None
    basis: str | None = None
    similarity: float | None = None

    @property
    def year(self) -> str | None:
        """Start date of the fact, else its point in time; None if the statement has neither."""
        time = self.case.start_time or self.case.point_in_time
        if not time:
            return None
        sign, digits = ("-", time[1:]) if time.startswith("-") else ("", time)
        return sign + digits.partition("-")[0]

    @property
    def has_two_hops(self) -> bool:
        """Whether a two-hop question starts with it."""
        return any(probe.axis == "mhop" for probe in self.case.probes)

    @property
    def has_locality(self) -> bool:
        """Whether it has a locality question."""
        return any(probe.axis == "locality" for probe in self.case.probes)


def read_cards(edits: Edits) -> list[Card]:
    """Cards of a timestep, or of a file of edits, in the order of cases."""
    details = _details(edits) if isinstance(edits, Timestep) else {}
    return [Card(case, **details.get(case.case_id, {})) for case in edits.cases()]


def _details(timestep: Timestep) -> dict[str, dict[str, Any]]:
    locality = {
        row["case_id"]: row for row in timestep.table("locality").select(["case_id", "basis", "similarity"]).to_pylist()
    }
    columns = ["case_id", "kind_confidence", "kind_signals", "subject_class"]
    found = {}
    for row in timestep.table("cases").select(columns).to_pylist():
        near = locality.get(row["case_id"], {})
        found[row["case_id"]] = {
            "confidence": row["kind_confidence"],
            "signals": tuple(row["kind_signals"] or ()),
            "topic": row["subject_class"],
            "basis": near.get("basis"),
            "similarity": near.get("similarity"),
        }
    return found


BASES = {
    "changed": "a change in the window",
    "graph": "facts in common",
    "label": "a similar label",
    "relation": "a related relation",
    "nearest": "the nearest facts",
    "random": "a random draw",
}
"""Basis of a locality probe -> the same in words, after "found by"."""

_CARD_COLUMNS = (
    *("id", "subject", "subjectId", "relation", "relationId", "target", "targetId", "old", "oldIds", "tag", "kind"),
    *(
        "confidence",
        "signals",
        "scenario",
        "topic",
        "year",
        "start",
        "point",
        "basis",
        "similarity",
        "questions",
        "hops",
    ),
    "near",
)
_DROPPED_COLUMNS = ("subject", "subjectId", "relation", "relationId", "old", "new", "reason")


@dataclass(slots=True)
class CardData:
    """Cards and dropped changes as numeric columns, each string stored once."""

    strings: Numbered[str] = field(default_factory=Numbered)
    lists: Numbered[tuple[int, ...]] = field(default_factory=Numbered)

    def pack(self, cards: Iterable[Card], dropped: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Convert to JSON-compatible data."""
        return {
            "cards": _columns(_CARD_COLUMNS, (self._card(card) for card in cards)),
            "dropped": _columns(_DROPPED_COLUMNS, (self._dropped(row) for row in dropped)),
            "lists": self.lists.values,
            "strings": self.strings.values,
        }

    def _card(self, card: Card) -> dict[str, int]:
        case, number_of = card.case, self.strings.number
        return {
            "id": number_of(case.case_id),
            **self._fact(case.fact),
            "old": self._list(case.old_answers),
            "oldIds": self._list(case.old_objects),
            "tag": number_of(case.tag),
            "kind": number_of(case.kind),
            "confidence": NOTHING if card.confidence is None else round(100 * card.confidence),
            "signals": self._list(card.signals),
            "scenario": number_of(case.scenario),
            "topic": number_of(card.topic),
            "year": number_of(card.year),
            "start": number_of(case.start_time),
            "point": number_of(case.point_in_time),
            "basis": number_of(BASES.get(card.basis, card.basis) if card.basis else None),
            "similarity": NOTHING if card.similarity is None else round(100 * card.similarity),
            # Flat lists: axis, question and answer repeat; a fact has six parts.
            "questions": self._list([part for probe in case.probes if probe.axis in _ASKED for part in _asked(probe)]),
            "hops": self._list([part for probe in case.probes if probe.axis == "mhop" for part in _hop(probe)]),
            "near": self._list([part for probe in case.probes if probe.axis == "locality" for part in _near(probe)]),
        }

    def _fact(self, fact: Fact) -> dict[str, int]:
        number_of = self.strings.number
        return {
            "subject": number_of(fact.subject_label or fact.subject),
            "subjectId": number_of(fact.subject),
            "relation": number_of(fact.property_label or fact.property),
            "relationId": number_of(fact.property),
            "target": number_of(fact.object_label or fact.object),
            "targetId": number_of(fact.object),
        }

    def _dropped(self, row: Mapping[str, Any]) -> dict[str, int]:
        number_of = self.strings.number
        return {
            "subject": number_of(row["subject_label"] or row["subject"]),
            "subjectId": number_of(row["subject"]),
            "relation": number_of(row["property_label"] or row["property"]),
            "relationId": number_of(row["property"]),
            "old": self._list(_labels(row["old_objects"], row["old_labels"])),
            "new": self._list(_labels(row["new_objects"], row["new_labels"])),
            "reason": number_of(row["reason"]),
        }

    def _list(self, texts: Iterable[str]) -> int:
        return self.lists.number(tuple(self.strings.number(text) for text in texts))


def _asked(probe: Probe) -> tuple[str, str, str]:
    return probe.axis, probe.question, probe.answers[0]


def _hop(probe: Probe) -> tuple[str, ...]:
    """Question, answer, the bridge's relation to the answer, and whether the second fact is also a case."""
    second = probe.facts[1]
    return probe.question, probe.answers[0], second.property_label or second.property, probe.second_case_id or ""


def _near(probe: Probe) -> tuple[str, ...]:
    fact = probe.facts[0]
    return probe.question, probe.answers[0], fact.subject_label or fact.subject, fact.subject


def _labels(objects: Sequence[str], labels: Sequence[str | None]) -> list[str]:
    return [
        label or (entity if entity.startswith("Q") else "a value")
        for entity, label in zip(objects, labels, strict=True)
    ]


def _columns(names: Sequence[str], rows: Iterable[Mapping[str, int]]) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {name: [] for name in names}
    for row in rows:
        for name in names:
            columns[name].append(row[name])
    return columns


def shown_dropped(edits: Edits, *, most: int = MOST_DROPPED) -> tuple[list[dict[str, Any]], Counter[str]] | None:
    """Dropped changes for a page, and their numbers by reason; None if the export did not keep them.

    Args:
        most: Maximum number of rows; each reason gets an even share, ordered by subject and property.
    """
    table = read_dropped(edits) if isinstance(edits, Timestep) else None
    if table is None:
        return None
    counts = Counter(table["reason"].to_pylist())
    share = most // max(1, len(counts))
    if table.num_rows <= most:
        return table.to_pylist(), counts
    taken: Counter[str] = Counter()
    chosen = []
    for index, reason in enumerate(table["reason"].to_pylist()):
        if taken[reason] < share:
            taken[reason] += 1
            chosen.append(index)
    return table.take(chosen).to_pylist(), counts
