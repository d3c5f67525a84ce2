"""Edits and facts as a table, and the learner that adds them to a memory. Replaced values end and are not deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kgedit.columns import Numbers
from kgedit.graph_memory.dates import HOLDS, UNKNOWN_END, UNKNOWN_START, date_number, is_surely_before
from kgedit.graph_memory.facts import FactTable, NewValues
from kgedit.records.cases import Case
from kgedit.timesteps.edit_files.contract import is_made_of_row

_STRINGS = pa.list_(pa.string())
LEARNED = pa.schema(
    [
        *((name, pa.string()) for name in ("case_id", "subject", "subject_label", "property", "property_label")),
        *((name, pa.string()) for name in ("object", "object_label", "question", "answer", "since")),
        ("old_objects", _STRINGS),
        ("old_answers", _STRINGS),
        ("subject_aliases", _STRINGS),
        ("subject_description", pa.string()),
    ]
)
"""Schema of `GraphMemory.learn_table`. Columns are those of a timestep's cases; `since` is an ISO date of any precision
from which the value holds, "" if unknown. Ids and labels may be "" and lists empty, but nothing is null."""


def _id(given: str, label: str) -> str:
    # Another file has the same ids of rows.
    return "" if label and is_made_of_row(given) else given


def table_of_cases(cases: Iterable[Case]) -> pa.Table:
    """Edits as a table with the schema LEARNED."""
    rows = [
        (
            *(case.id_in_run, _id(fact.subject, fact.subject_label), fact.subject_label),
            *(_id(fact.property, case.question), fact.property_label),
            *(_id(fact.object, fact.object_label), fact.object_label, case.question, case.answer, since_of(case)),
            *(list(map(_id, case.old_objects, case.old_answers)), case.old_answers),
            *(case.subject_aliases, case.subject_description),
        )
        for case in cases
        for fact in (case.fact,)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(LEARNED)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, LEARNED.types, strict=True)], LEARNED)


def since_of(case: Case) -> str:
    """Start of a case's value: that of its statement, else the day of the newer snapshot; "" for edits from a file.

    The value is known to hold on the snapshot's day, so a later start is ignored.
    """
    newer = case.timestep.rpartition("_")[2]
    seen = f"{newer[:4]}-{newer[4:6]}-{newer[6:]}" if len(newer) == 8 and newer.isdigit() else case.as_of or ""
    stated = case.start_time or ""
    return stated if date_number(stated) and (not seen or stated <= seen) else seen


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Change of one row by one edit.

    Attributes:
        thing: Number of the new value's entity.
        label: Label shown in answers.
        case: Id of the edit.
        since: Date number from which the new value holds (kgedit.graph_memory.dates).
        ended: Numbers and labels of the values that it replaces.
    """

    thing: int
    label: str
    case: str
    since: int
    ended: Sequence[tuple[int, str]]


class Learner:
    """Collects changes of rows, in order, and adds the new values in one call.

    Args:
        facts: Table to extend.
    """

    def __init__(self, facts: FactTable) -> None:
        self._facts = facts
        self._rows: list[int] = []
        self._things: list[int] = []
        self._labels: list[str] = []
        self._cases: list[str] = []
        self._since: list[int] = []
        self._until: list[int] = []
        self._pending: dict[int, list[int]] = {}

    def take(self, row: int, change: MemoryChange, *, fresh: bool) -> None:
        """Collect a change. A row is fresh if neither this learner nor an earlier one has another change of it."""
        end = change.since if change.since != UNKNOWN_START else UNKNOWN_END
        known = {} if fresh else self._known(row)
        for thing, label in change.ended:
            self._end(row, known, thing, label, end)
        if change.thing in known:
            place = known[change.thing]
            since, until = self._interval(place)
            overlaps = until == HOLDS or UNKNOWN_START < change.since < until < UNKNOWN_END
            again = since == change.since and (since, until) != (UNKNOWN_START, UNKNOWN_END)
            case = self._case_of(place)
            if (overlaps and case in (change.case, "")) or (again and case == change.case):
                # The same fact again, perhaps learned from an earlier day: it holds since the earlier of the two.
                self._set_interval(place, min(filter(None, (since, change.since)), default=UNKNOWN_START), until)
                return
            if until == HOLDS:
                self._set_interval(place, since, since if is_surely_before(end, since) else end)
        self._add(row, change.thing, change.label, change.case, change.since, HOLDS, keep=not fresh)

    def finish(self) -> None:
        """Add the collected values to the facts."""
        self._facts.add_values(
            NewValues(
                rows=np.array(self._rows, dtype=np.int32),
                things=np.array(self._things, dtype=np.int32),
                labels=self._labels,
                cases=self._cases,
                since=np.array(self._since, dtype=np.int32),
                until=np.array(self._until, dtype=np.int32),
            )
        )

    def _known(self, row: int) -> dict[int, int]:
        """Last index of each value of a row: from 0 for values of the facts, from -1 downwards for collected ones."""
        return dict(self._places(row))

    def _places(self, row: int) -> Iterator[tuple[int, int]]:
        """Each value of a row with its index, as in `_known`."""
        yield from ((self._facts.thing_of(value), value) for value in self._facts.values_of(row))
        yield from ((self._things[-1 - place], place) for place in self._pending.get(row, ()))

    def _end(self, row: int, known: dict[int, int], thing: int, label: str, end: int) -> None:
        place = known.get(thing)
        if place is None:
            self._add(row, thing, label, "", UNKNOWN_START, end, keep=True)
            return
        since, until = self._interval(place)
        if until != HOLDS:
            return
        if is_surely_before(end, since):
            # It came back after this edit, whose end is that of an earlier interval.
            if not any(self._interval(other)[1] <= since for own, other in self._places(row) if own == thing):
                self._add(row, thing, label, "", UNKNOWN_START, end, keep=True)
            return
        self._set_interval(place, since, end)

    def _add(self, row: int, thing: int, label: str, case: str, since: int, until: int, *, keep: bool) -> None:
        if keep:
            self._pending.setdefault(row, []).append(-1 - len(self._rows))
        for column, entry in (
            (self._rows, row),
            (self._things, thing),
            (self._since, since),
            (self._until, until),
        ):
            column.append(entry)
        self._labels.append(label)
        self._cases.append(case)

    def _case_of(self, place: int) -> str:
        return self._facts.value(place).case_id if place >= 0 else self._cases[-1 - place]

    def _interval(self, place: int) -> tuple[int, int]:
        if place >= 0:
            return self._facts.interval(place)
        return self._since[-1 - place], self._until[-1 - place]

    def _set_interval(self, place: int, since: int, until: int) -> None:
        if place >= 0:
            self._facts.set_interval(place, since, until)
        else:
            self._since[-1 - place], self._until[-1 - place] = since, until


def fresh_rows(rows: Numbers, new: NDArray[np.bool_]) -> list[bool]:
    """For each row, whether it is new and occurs once."""
    _, inverse, counts = np.unique(rows, return_inverse=True, return_counts=True)
    once: list[bool] = ((counts == 1)[inverse] & new).tolist()
    return once
