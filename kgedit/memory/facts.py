"""Remembered facts as columns: rows of (subject, relation) with the values that hold and those that have ended.

Numbers stand for subjects, relations and rows; a value is never deleted, it ends, so that earlier dates can be asked.
Arrays and three dictionaries hold everything, with no object for each fact.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_NONE = -1
_RELATION_BITS = 24


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a row.

    Attributes:
        thing: Number of the value as a subject or value of other facts.
        label: As it is told.
        case_id: The edit that brought it; "" for the old answer of an edit.
        since: ISO date from which it is known to hold; "" where that is not known.
        until: ISO date at which it no longer held; "" while it holds.
    """

    thing: int
    label: str
    case_id: str
    since: str
    until: str

    def holds(self, as_of: str) -> bool:
        """Whether it held at a date; "" for now."""
        if not as_of:
            return not self.until
        return self.since <= as_of and (not self.until or as_of < self.until)


class FactTable:
    """Facts in the order in which they were learned.

    Attributes:
        things: Number of an item by its id; a name serves where there is no id.
        labels: Label by number; "" for a number that was met without one.
    """

    def __init__(self) -> None:
        self.things: dict[str, int] = {}
        self.ids: list[str] = []
        self.labels: list[str] = []
        self._strings: dict[str, int] = {"": 0}
        self._texts: list[str] = [""]
        self._row_of: dict[int, int] = {}
        self._first_row, self._last_row = array("i"), array("i")
        self._subject, self._relation, self._wording = array("i"), array("i"), array("i")
        self._next_row, self._first_value, self._last_value = array("i"), array("i"), array("i")
        self._thing, self._case, self._next_value = array("i"), array("i"), array("i")
        self._since, self._until = array("i"), array("i")
        self._row_of_value = array("i")
        self._case_ids: list[str | None] = []
        self._value_labels: list[str | None] = []

    def __len__(self) -> int:
        """Values, ended ones included."""
        return len(self._thing)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._subject)

    def number(self, identifier: str, label: str = "") -> int:
        """The number of an item, new where it is; its label is the one that was given last."""
        number = self.things.setdefault(identifier, len(self.ids))
        if number == len(self.ids):
            self.ids.append(identifier)
            self.labels.append(label)
            self._first_row.append(_NONE)
            self._last_row.append(_NONE)
        elif label:
            self.labels[number] = label
        return number

    def row(self, subject: int, relation: int, *, wording: int) -> int:
        """The row of a subject and relation, new where it is; the wording is the one that was given last."""
        key = subject << _RELATION_BITS | relation
        row = self._row_of.get(key)
        if row is not None:
            self._wording[row] = wording
            return row
        row = self._row_of[key] = len(self._subject)
        for column, entry in (
            (self._subject, subject),
            (self._relation, relation),
            (self._wording, wording),
            (self._next_row, _NONE),
            (self._first_value, _NONE),
            (self._last_value, _NONE),
        ):
            column.append(entry)
        if self._last_row[subject] == _NONE:
            self._first_row[subject] = row
        else:
            self._next_row[self._last_row[subject]] = row
        self._last_row[subject] = row
        return row

    def add_value(self, row: int, thing: int, label: str, *, case_id: str, since: str, until: str = "") -> None:
        """Add a value at the end of a row."""
        number = len(self._thing)
        usual = f"{self.ids[self._subject[row]]}:"
        self._thing.append(thing)
        self._row_of_value.append(row)
        self._next_value.append(_NONE)
        self._since.append(self._string(since))
        self._until.append(self._string(until))
        # Most labels are the item's own and most case ids begin with the subject's: neither is kept twice.
        self._value_labels.append(None if self.labels[thing] == label else label)
        self._case_ids.append(case_id.removeprefix(usual) if case_id.startswith(usual) else f"\0{case_id}")
        if self._last_value[row] == _NONE:
            self._first_value[row] = number
        else:
            self._next_value[self._last_value[row]] = number
        self._last_value[row] = number

    def end(self, row: int, thing: int, *, until: str) -> bool:
        """End the value of a row that holds; whether there was one."""
        for number in self._numbers(row):
            if self._thing[number] == thing and not self._until[number]:
                self._until[number] = self._string(until)
                return True
        return False

    def rows_of(self, subject: int) -> Iterator[int]:
        """Rows of a subject in the order in which they were learned."""
        row = self._first_row[subject]
        while row != _NONE:
            yield row
            row = self._next_row[row]

    def subject_of(self, row: int) -> int:
        """Number of a row's subject."""
        return self._subject[row]

    def relation_of(self, row: int) -> int:
        """Number of a row's relation."""
        return self._relation[row]

    def wording_of(self, row: int) -> int:
        """Number of the wording that a row's question has."""
        return self._wording[row]

    def values(self, row: int, *, as_of: str = "") -> list[Value]:
        """Values of a row that hold at a date, in the order in which they were learned."""
        values = (self._value(row, number) for number in self._numbers(row))
        return [value for value in values if value.holds(as_of)]

    def all_values(self, row: int) -> list[Value]:
        """Values of a row, ended ones included."""
        return [self._value(row, number) for number in self._numbers(row)]

    def learned(self, row: int) -> int:
        """Place of a row's last value in the order of learning."""
        return self._last_value[row]

    def _numbers(self, row: int) -> Iterator[int]:
        number = self._first_value[row]
        while number != _NONE:
            yield number
            number = self._next_value[number]

    def _value(self, row: int, number: int) -> Value:
        thing = self._thing[number]
        label, case_id = self._value_labels[number], self._case_ids[number] or ""
        return Value(
            thing=thing,
            label=self.labels[thing] if label is None else label,
            case_id=case_id[1:] if case_id.startswith("\0") else f"{self.ids[self._subject[row]]}:{case_id}",
            since=self._texts[self._since[number]],
            until=self._texts[self._until[number]],
        )

    def order(self) -> list[int]:
        """The row of each value in the order of learning."""
        return self._row_of_value.tolist()

    def _string(self, text: str) -> int:
        number = self._strings.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return number

    def as_records(self) -> list[list[Any]]:
        """Every row with its values, as JSON values; `GraphMemory` reads them back."""
        return [
            [
                self._subject[row],
                self._relation[row],
                self._wording[row],
                [[value.thing, value.label, value.case_id, value.since, value.until] for value in self.all_values(row)],
            ]
            for row in range(self.rows)
        ]
