"""Remembered facts as columns: rows of (subject, relation) with their current and ended values, and their conflicts.

Subjects, relations and rows are numbered. A value ends but is never deleted, so that questions about earlier dates
can be answered. Facts are stored as columns and sorted runs of 64-bit keys (kgedit.columns), not as objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.columns import KeyedNumbers, NumberColumn, Numbers, TextColumn, hashed
from kgedit.graph_memory.dates import HOLDS, UNKNOWN_START, Period, date_text, holding, is_surely_before

_RELATION_BITS = np.uint64(24)
_MOST_RELATIONS = np.uint64(2**24 - 1)
_ROW_COLUMNS = ("subject", "relation", "wording")
_VALUE_COLUMNS = ("row", "thing", "value_label", "case", "since", "until")
_OWN_LABEL = -1
_NO_CASE, _USUAL_CASE = -1, -2
"""Numbers of a value without an edit, and of an edit with the usual id SUBJECT:RELATION:OBJECT of exports."""


@dataclass(frozen=True, slots=True)
class MemoryValue:
    """One value of a row.

    Attributes:
        thing: Number of the entity that is the value.
        label: Label shown in answers.
        case_id: Id of the edit that added it; "" for the old answer of an edit.
        since: ISO date from which it is known to hold; "" if unknown.
        until: ISO date from which it no longer held; "" while it holds, "?" if the date is unknown.
    """

    thing: int
    label: str
    case_id: str
    since: str
    until: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewValues:
    """Values to add, as columns of equal length.

    Attributes:
        rows: Row of each value.
        things: Number of the entity that is the value.
        labels: Labels shown in answers.
        cases: Ids of the edits that added the values; "" without an edit.
        since: Date numbers (kgedit.graph_memory.dates).
        until: Date numbers.
    """

    rows: Numbers
    things: Numbers
    labels: Sequence[str]
    cases: Sequence[str]
    since: Numbers
    until: Numbers


class FactTable:
    """Facts in the order in which they were learned.

    Args:
        relation_ids: Ids of relations, by number; the list may grow.
    """

    def __init__(self, relation_ids: Sequence[str]) -> None:
        self._relation_ids = relation_ids
        self.ids, self._texts = TextColumn(), TextColumn()
        self._label, self._things = NumberColumn(), KeyedNumbers()
        self._subject, self._relation, self._wording = NumberColumn(), NumberColumn(), NumberColumn()
        self._rows, self._values, self._with_thing = KeyedNumbers(), KeyedNumbers(), KeyedNumbers()
        self._row, self._thing, self._value_label, self._case = (NumberColumn() for _ in range(4))
        self._since, self._until = NumberColumn(), NumberColumn()

    def __len__(self) -> int:
        """Number of values, including ended ones."""
        return len(self._thing)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._subject)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(
            part.nbytes for part in vars(self).values() if isinstance(part, NumberColumn | TextColumn | KeyedNumbers)
        )

    def label(self, thing: int) -> str:
        """Label of an entity; "" if none was given."""
        number = int(self._label.view[thing])
        return self._texts[number] if number >= 0 else ""

    def number_of(self, identifier: str) -> int:
        """Number of an entity; -1 if it is unknown."""
        return int(self._things.first(hashed([identifier]))[0])

    def numbers(self, identifiers: Sequence[str], labels: Sequence[str]) -> Numbers:
        """Numbers of entities; unknown ones are added. The label that was given last is kept."""
        last = {name: label for name, label in zip(identifiers, labels, strict=True) if label}
        names = list(dict.fromkeys(identifiers))
        keys = hashed(names)
        found = self._things.first(keys)
        new = found < 0
        found[new] = np.arange(len(self.ids), len(self.ids) + int(new.sum()), dtype=np.int32)
        self._things.add(keys[new], found[new])
        self.ids.extend([name for name, fresh in zip(names, new.tolist(), strict=True) if fresh])
        self._label.extend(np.full(int(new.sum()), -1))
        changed = [
            (number, last[name])
            for name, number, fresh in zip(names, found.tolist(), new.tolist(), strict=True)
            if name in last and (fresh or self.label(number) != last[name])
        ]
        texts = [label for _, label in changed]
        self._label.view[[number for number, _ in changed]] = self._added_texts(texts, np.zeros(len(texts), bool), -1)
        place = dict(zip(names, found.tolist(), strict=True))
        return np.array([place[name] for name in identifiers], dtype=np.int32)

    def rows_for(self, subjects: Numbers, relations: Numbers, wordings: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Rows of (subject, relation) pairs, and a mask of the new ones. The wording that was given last is kept."""
        keys = (subjects.astype(np.uint64) << _RELATION_BITS) | relations.astype(np.uint64)
        unique, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
        found = self._rows.first(unique)
        new = found < 0
        order = np.argsort(firsts[new], kind="stable")
        fresh = np.flatnonzero(new)[order]
        found[fresh] = np.arange(self.rows, self.rows + len(fresh), dtype=np.int32)
        self._rows.add(unique[fresh], found[fresh])
        self._subject.extend(subjects[firsts[fresh]])
        self._relation.extend(relations[firsts[fresh]])
        self._wording.extend(wordings[firsts[fresh]])
        rows: Numbers = found[inverse]
        self._wording.view[rows] = wordings
        return rows, new[inverse]

    def add_values(self, new: NewValues) -> None:
        """Add values at the ends of their rows."""
        start, count = len(self), len(new.rows)
        self._values.add(new.rows.astype(np.uint64), np.arange(start, start + count))
        self._with_thing.add(new.things.astype(np.uint64), np.arange(start, start + count))
        for column, entries in (
            (self._row, new.rows),
            (self._thing, new.things),
            (self._since, new.since),
            (self._until, new.until),
        ):
            column.extend(entries)
        # Most labels are the item's own and most case ids follow from the fact: neither is kept twice.
        own = [self.label(thing) == label for thing, label in zip(new.things.tolist(), new.labels, strict=True)]
        self._value_label.extend(self._added_texts(new.labels, np.array(own, dtype=bool), _OWN_LABEL))
        usual = np.array([self._usual_case(start + place) == case for place, case in enumerate(new.cases)], dtype=bool)
        without = np.array([not case for case in new.cases], dtype=bool)
        cases = self._added_texts(new.cases, usual | without, _NO_CASE)
        cases[usual] = _USUAL_CASE
        self._case.extend(cases)

    def values_of(self, row: int) -> list[int]:
        """Numbers of a row's values, including ended ones, in the order in which they were learned."""
        return sorted(self._values.find(np.array([row], dtype=np.uint64))[1].tolist())

    def thing_of(self, value: int) -> int:
        """Number of the entity that is the value."""
        return int(self._thing.view[value])

    def interval(self, value: int) -> tuple[int, int]:
        """Start and end of a value, as date numbers (kgedit.graph_memory.dates)."""
        return int(self._since.view[value]), int(self._until.view[value])

    def set_interval(self, value: int, since: int, until: int) -> None:
        """Set the start and end of a value."""
        self._since.view[value], self._until.view[value] = since, until

    def end_value(self, subject: int, relation: int, thing: str, end: int) -> None:
        """Set the end of the row's last current value that is this entity; without one, nothing changes.

        If the end is surely before the start, the start becomes unknown: it is the day of the snapshot that has the
        value first, or the statement contradicts itself. Then the value holds on no date after its end.
        """
        [row] = self._rows.first(
            np.array([subject], dtype=np.int64).astype(np.uint64) << _RELATION_BITS | np.uint64(relation)
        ).tolist()
        if subject < 0 or row < 0:
            return
        item = self.number_of(thing)
        for value in reversed(self.values_of(row)):
            since, until = self.interval(value)
            if self.thing_of(value) == item and until == HOLDS:
                self.set_interval(value, UNKNOWN_START if is_surely_before(end, since) else since, end)
                return

    def values(self, row: int, period: Period | None = None, *, ended: bool = False) -> list[MemoryValue]:
        """Values of a row that hold in a period (None means now), in the order in which they were learned.

        Args:
            row: Number of the row.
            period: Time in which the values must hold; None means now.
            ended: Whether a row without a current value has the value that ended last; needs no period.
        """
        numbers = np.array(self.values_of(row), dtype=np.int64)
        kept = numbers[holding(self._since.view[numbers], self._until.view[numbers], period)]
        if ended and period is None and not len(kept):
            kept = numbers[[int(self._until.view[numbers].argmax())]]
        return [self.value(number) for number in kept.tolist()]

    def all_values(self, row: int) -> list[MemoryValue]:
        """Values of a row, including ended ones."""
        return [self.value(number) for number in self.values_of(row)]

    def rows_with(self, thing: int) -> list[int]:
        """Rows that have or had an entity as a value, in the order in which they were learned."""
        _, values = self._with_thing.find(np.array([thing], dtype=np.uint64))
        return sorted(set(self._row.view[values].tolist()))

    def row_things(self, first: int) -> list[tuple[int, int]]:
        """Row and entity of each value from a number on."""
        return list(zip(self._row.view[first:].tolist(), self._thing.view[first:].tolist(), strict=True))

    def steps(
        self, subjects: Numbers, period: Period | None = None, *, ended: bool = False
    ) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        """Every fact of some subjects that holds in a period; None means now. Remaining arguments: see `values`.

        Returns:
            Arrays with one entry per fact: index of the subject in `subjects`, row, and number of the value's entity.
        """
        lows = subjects.astype(np.uint64) << _RELATION_BITS
        places, rows = self._rows.between(lows, lows | _MOST_RELATIONS)
        of_row, values = self._values.find(rows.astype(np.uint64))
        kept = holding(self._since.view[values], self._until.view[values], period)
        if ended and period is None:
            kept |= self._last_ended(of_row, values, kept, len(rows))
        of_row, values = of_row[kept], values[kept]
        return places[of_row], rows[of_row], self._thing.view[values]

    def _last_ended(
        self, of_row: NDArray[np.int64], values: Numbers, kept: NDArray[np.bool_], rows: int
    ) -> NDArray[np.bool_]:
        """Mask of the value that ended last, of each row without a kept value."""
        without = np.ones(rows, dtype=bool)
        without[of_row[kept]] = False
        if not without.any():
            return np.zeros(len(values), dtype=bool)
        order = np.lexsort((self._until.view[values], of_row))
        last = np.zeros(len(values), dtype=bool)
        if len(order):
            last[order[np.append(of_row[order][1:] != of_row[order][:-1], True)]] = True
        return last & without[of_row]

    def subject_of(self, row: int) -> int:
        """Number of a row's subject."""
        return int(self._subject.view[row])

    def relations_of(self, rows: Numbers) -> Numbers:
        """Relation number of each row."""
        return self._relation.view[rows]

    def wording_of(self, row: int) -> int:
        """Wording number of a row's question."""
        return int(self._wording.view[row])

    def learned(self, row: int) -> int:
        """Number of the row's value that was learned last."""
        return self.values_of(row)[-1]

    def several_hold(self) -> tuple[Numbers, Numbers]:
        """Number of current values of each row, and relation of each row."""
        holds = self._row.view[self._until.view == HOLDS]
        return np.bincount(holds, minlength=self.rows).astype(np.int32), self._relation.view

    def value(self, number: int) -> MemoryValue:
        """The value with a number."""
        thing, case = self.thing_of(number), int(self._case.view[number])
        label = int(self._value_label.view[number])
        since, until = self.interval(number)
        return MemoryValue(
            thing=thing,
            label=self.label(thing) if label == _OWN_LABEL else self._texts[label],
            case_id="" if case == _NO_CASE else self._usual_case(number) if case == _USUAL_CASE else self._texts[case],
            since=date_text(since),
            until=date_text(until),
        )

    def tables(self) -> dict[str, pa.Table]:
        """All columns, as tables to save."""
        return {
            "things": pa.table({"id": self.ids.to_arrow(), "label": self._label.view}),
            "texts": pa.table({"text": self._texts.to_arrow()}),
            "rows": pa.table({name: getattr(self, f"_{name}").view for name in _ROW_COLUMNS}),
            "values": pa.table({name: getattr(self, f"_{name}").view for name in _VALUE_COLUMNS}),
        }

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Load the result of `tables` into an empty table."""
        ids = tables["things"]["id"].to_pylist()
        self.ids.extend(ids)
        self._things.add(hashed(ids), np.arange(len(ids)))
        self._label.extend(tables["things"]["label"].to_numpy())
        self._texts.extend(tables["texts"]["text"].to_pylist())
        for table, names in (("rows", _ROW_COLUMNS), ("values", _VALUE_COLUMNS)):
            for name in names:
                getattr(self, f"_{name}").extend(tables[table][name].to_numpy())
        keys = (self._subject.view.astype(np.uint64) << _RELATION_BITS) | self._relation.view.astype(np.uint64)
        self._rows.add(keys, np.arange(self.rows))
        self._values.add(self._row.view.astype(np.uint64), np.arange(len(self)))
        self._with_thing.add(self._thing.view.astype(np.uint64), np.arange(len(self)))

    def _usual_case(self, value: int) -> str:
        row = int(self._row.view[value])
        relation = self._relation_ids[int(self._relation.view[row])]
        return f"{self.ids[self.subject_of(row)]}:{relation}:{self.ids[self.thing_of(value)]}"

    def _added_texts(self, texts: Sequence[str], without: NDArray[np.bool_], instead: int) -> Numbers:
        """Add texts and return their numbers; entries in the mask `without` are not added and get `instead`."""
        numbers: Numbers = np.full(len(texts), instead, dtype=np.int32)
        kept = [text for text, skipped in zip(texts, without.tolist(), strict=True) if not skipped]
        numbers[~without] = np.arange(len(self._texts), len(self._texts) + len(kept))
        self._texts.extend(kept)
        return numbers


CONFLICTS = pa.schema(
    [
        (name, pa.string())
        for name in ("subject", "subject_label", "relation", "object", "object_label", "case_id", "since")
    ]
)
"""subject, relation and object are ids; case_id is the edit that added the value; since is its start."""

_MOST_WITH_SEVERAL = 0.1
"""Largest share of a relation's rows with several values for which several values count as a conflict."""


def find_conflicts(facts: FactTable, relation_ids: Sequence[str]) -> pa.Table:
    """Find rows with several current values, of relations where at most one row in ten has them.

    Returns:
        A table with the schema CONFLICTS: one row per value, in the order in which rows were learned.
    """
    relations = facts.relations_of(np.arange(facts.rows, dtype=np.int32))
    found = []
    for row in sorted(conflicting_rows(facts)):
        subject = facts.subject_of(row)
        found += [
            {
                "subject": facts.ids[subject],
                "subject_label": facts.label(subject),
                "relation": relation_ids[int(relations[row])],
                "object": facts.ids[value.thing],
                "object_label": value.label,
                "case_id": value.case_id,
                "since": value.since,
            }
            for value in facts.values(row)
        ]
    return pa.Table.from_pylist(found, schema=CONFLICTS)


def conflicting_rows(facts: FactTable) -> frozenset[int]:
    """Rows with several current values, of relations where at most one row in ten has them."""
    counts, relations = facts.several_hold()
    if not len(counts):
        return frozenset()
    rows = np.bincount(relations, weights=counts > 0)
    several = np.bincount(relations, weights=counts > 1)
    exceptional = several <= np.maximum(1, _MOST_WITH_SEVERAL * rows)
    return frozenset(np.flatnonzero((counts > 1) & exceptional[relations]).tolist())
