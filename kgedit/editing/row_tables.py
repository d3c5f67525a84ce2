"""Tables that grow by a row per edit and track changes since they were last written.

A checkpoint of a run writes only the rows that changed since the previous checkpoint, so a long run writes an amount
linear in its edits. Rows keep their index until one is removed; then the last row takes the free index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.llm.devices import device_for


@dataclass(frozen=True, slots=True)
class TableRows:
    """Some or all rows of a table.

    Attributes:
        count: Number of rows of the whole table.
        indexes: Ascending indexes of these rows; None means all.
        columns: Tensors of shape rows x any.
        labels: A JSON value for each of these rows.
    """

    count: int
    indexes: tuple[int, ...] | None
    columns: dict[str, torch.Tensor]
    labels: tuple[Any, ...]


class GrowingRows:
    """A tensor that grows by rows; its capacity doubles, so that adding rows takes linear time."""

    def __init__(self, rows: torch.Tensor | None = None) -> None:
        self._room = rows
        self._count = 0 if rows is None else len(rows)

    def add(self, row: torch.Tensor) -> None:
        """Append a row."""
        self.resize(self._count + 1, like=row)
        self.rows[-1] = row

    def resize(self, count: int, *, like: torch.Tensor) -> None:
        """Resize to `count` rows; new ones are uninitialised.

        Args:
            like: A row of the same shape, type and device.
        """
        if self._room is None:
            self._room = torch.empty(max(8, count), *like.shape, dtype=like.dtype, device=like.device)
        elif count > len(self._room):
            more = max(count, 2 * len(self._room)) - len(self._room)
            self._room = torch.cat([self._room, self._room.new_empty(more, *self._room.shape[1:])])
        self._count = count

    def truncate(self, count: int) -> None:
        """Remove all rows from `count` on."""
        self._count = min(self._count, count)

    @property
    def rows(self) -> torch.Tensor:
        """A writable view of the rows; ValueError before the first one."""
        if self._room is None:
            raise ValueError("no rows yet")
        return self._room[: self._count]


class RowTable:
    """Named columns and a label for each row.

    Attributes:
        labels: A JSON value for each row; replace one through `set_label`.
    """

    def __init__(self) -> None:
        self._columns: dict[str, GrowingRows] = {}
        self._changed: set[int] = set()
        self.labels: list[Any] = []

    def __len__(self) -> int:
        return len(self.labels)

    def column(self, name: str) -> torch.Tensor:
        """A writable view of a column, rows x any; call `note` for changed rows. ValueError without rows."""
        return self._columns.get(name, GrowingRows()).rows

    def add(self, label: Any, **row: torch.Tensor) -> int:
        """Add a row and return its index."""
        for name, value in row.items():
            self._columns.setdefault(name, GrowingRows()).add(value)
        self.labels.append(label)
        self._changed.add(len(self) - 1)
        return len(self) - 1

    def set_label(self, index: int, label: Any) -> None:
        """Replace a label."""
        self.labels[index] = label
        self._changed.add(index)

    def note(self, indexes: Sequence[int]) -> None:
        """Mark rows as changed."""
        self._changed.update(indexes)

    def remove(self, index: int) -> None:
        """Remove a row; the last one takes its index."""
        last = len(self) - 1
        for column in self._columns.values():
            column.rows[index] = column.rows[last].clone()
            column.truncate(last)
        self.labels[index] = self.labels[last]
        self.labels.pop()
        self._changed.discard(last)
        if index < last:
            self._changed.add(index)

    def content(self) -> TableRows:
        """Return a copy of the whole table."""
        columns = {name: column.rows.clone() for name, column in self._columns.items()} if self.labels else {}
        return TableRows(len(self), None, columns, tuple(self.labels))

    def take_changes(self) -> TableRows:
        """Return a copy of the rows that were added or changed since the last call, or since `apply`."""
        indexes = sorted(self._changed)
        self._changed.clear()
        return self.copy_of(indexes)

    def copy_of(self, indexes: Sequence[int]) -> TableRows:
        """Return a copy of some rows, given in ascending order."""
        chosen = list(indexes)
        columns = {name: column.rows[chosen] for name, column in self._columns.items()} if chosen else {}
        return TableRows(len(self), tuple(chosen), columns, tuple(self.labels[index] for index in chosen))

    def revert(self, rows: TableRows) -> None:
        """Undo changes to some rows, and remove rows added since they were copied by `copy_of`."""
        changed = {index for index in self._changed if index < rows.count}.union(rows.indexes or ())
        self.apply(rows)
        self._changed = changed

    def apply(self, rows: TableRows, *, device: torch.device | None = None) -> None:
        """Load rows from a copy.

        Args:
            device: Device of the table; None means that of the rows.
        """
        indexes = list(range(rows.count)) if rows.indexes is None else list(rows.indexes)
        for name, given in rows.columns.items():
            own = given if device is None else given.to(device_for(given.dtype, device))
            column = self._columns.setdefault(name, GrowingRows())
            column.resize(rows.count, like=own[0])
            column.rows[indexes] = own
        for column in self._columns.values():
            column.truncate(rows.count)
        self.labels = [*self.labels[: rows.count], *[None] * (rows.count - len(self.labels))]
        for index, label in zip(indexes, rows.labels, strict=True):
            self.labels[index] = label
        self._changed.clear()
