"""The codebook of `grace`: keys with a radius, a label and a value, in the order of their first edits.

If the balls of two keys with different labels would overlap, both radii are reduced to half the distance. Lookups and
edits wait for the device once or twice per call, not once per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from kgedit.editing.row_tables import GrowingRows, RowTable, TableRows
from kgedit.llm.devices import float64_device, in_float64

Label = tuple[int, ...]
"""Token ids of an answer; labels are equal when all of them are."""

_ROUNDING = 1e-3
"""Upper bound of the relative rounding error of a sum of products; also valid for TF32 on GPUs."""


class Codebook:
    """A growing memory of one layer."""

    def __init__(self) -> None:
        self._table = RowTable()
        self._squares = GrowingRows()
        self._undo: list[TableRows] | None = None  # older versions of changed entries, in an `undone_on_error`

    def __len__(self) -> int:
        return len(self._table)

    @property
    def labels(self) -> list[Label]:
        """Token ids of the target that each key's value produces."""
        return self._table.labels

    @property
    def keys(self) -> torch.Tensor:
        """Entries x inputs: one input of the layer each, float32."""
        return self._table.column("keys")

    @property
    def values(self) -> torch.Tensor:
        """Entries x outputs: one output of the layer each, float32; `write` changes them."""
        return self._table.column("values")

    @property
    def radii(self) -> torch.Tensor:
        """Largest distance at which each key matches, inclusive; float64."""
        return self._table.column("radii")

    def write(self, entries: list[int], values: torch.Tensor) -> None:
        """Replace the values of some entries."""
        self.values[entries] = values
        self._table.note(entries)

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Context that reverts all changes made in it if it ends in an exception; copies only changed entries."""
        undo = self._undo = []
        try:
            yield
        except BaseException:
            for rows in reversed(undo):
                self._table.revert(rows)
            self._squares.truncate(len(self))
            raise
        finally:
            self._undo = None

    def find_or_add(
        self, keys: torch.Tensor, labels: Sequence[Label], values: torch.Tensor, *, radius: float, same: float
    ) -> list[int]:
        """Find or add the entries of edits, one by one.

        A key far from all others gets a new entry. Near a key with the same label, that key's radius grows to include
        it. Near a key with another label, both radii shrink to half the distance; if both are the same key, the newer
        label and value replace the older.

        Args:
            keys: The edits' inputs, edits x inputs, float32.
            labels: Token ids of their targets.
            values: Initial values of new entries, edits x outputs, float32.
            radius: Radius of a new key.
            same: Distance, as a share of the key's length, up to which two keys count as equal: the same prompt in
                another batch differs in its last bits.

        Returns:
            For each edit the index of the entry whose value must be trained to produce its label.
        """
        placing = _Placing(self.labels, self._measure(keys), radius=radius, same=same)
        entries = [placing.place(label) for label in labels]
        self._take_over(placing, keys, values)
        return entries

    def find(self, queries: torch.Tensor) -> torch.Tensor:
        """Return the nearest key's index for each query (rows x inputs), or -1 if it is outside that key's radius."""
        found = torch.full((len(queries),), -1, device=queries.device)
        if not self.labels:
            return found
        queries = queries.to(self.keys)
        within = self._maybe_within(queries).nonzero().flatten()
        if len(within):
            distances, nearest = self._nearest(queries[within])
            nearest = nearest.to(self.radii.device)
            hits = torch.where(in_float64(distances) <= self.radii[nearest], nearest, -1)
            found[within.to(found.device)] = hits.to(found.device)
        return found

    def content(self) -> TableRows:
        """Return a copy of the codebook."""
        return self._table.content()

    def take_changes(self) -> TableRows:
        """Return a copy of the entries that were added or changed since the last call."""
        return self._table.take_changes()

    @classmethod
    def of(cls, rows: TableRows, *, device: torch.device) -> Codebook:
        """Create a codebook from the result of `content`."""
        codebook = cls()
        if rows.count:
            codebook._table.apply(replace(rows, labels=tuple(tuple(label) for label in rows.labels)), device=device)
            codebook._squares = GrowingRows(codebook.keys.square().sum(1))
        return codebook

    def _maybe_within(self, queries: torch.Tensor) -> torch.Tensor:
        """False for queries that are certainly outside every radius: nearly all tokens of a long text."""
        squares, lengths = self._squares.rows, queries.square().sum(1)
        distances = (squares - 2 * queries @ self.keys.T).amin(1) + lengths
        return distances <= self.radii.max() ** 2 + _ROUNDING * (squares.max() + lengths)

    def _nearest(self, queries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Distance and index of the key nearest to each query.

        Candidates are found by |a|^2 - 2ab + |b|^2, which is fast but inexact, and compared by differences, because a
        key must have distance 0 from itself.
        """
        keys, squares = self.keys, self._squares.rows
        scores = squares - 2 * queries @ keys.T
        limits = scores.amin(1) + _ROUNDING * (squares.max() + queries.square().sum(1))
        most = int((scores <= limits[:, None]).sum(1).max())
        candidates = scores.topk(most, dim=1, largest=False).indices.sort(dim=1).values  # the first of equals wins
        exact = torch.stack([torch.linalg.vector_norm(keys[column] - queries, dim=1) for column in candidates.T], dim=1)
        best = exact.argmin(1, keepdim=True)
        return exact.gather(1, best)[:, 0], candidates.gather(1, best)[:, 0]

    def _measure(self, keys: torch.Tensor) -> list[_Measured]:
        """Measure distances among edits' keys and to those of the codebook; waits for the device twice."""
        between = torch.stack([torch.linalg.vector_norm(keys - key, dim=1) for key in keys])
        columns = [torch.linalg.vector_norm(keys, dim=1, keepdim=True), between]
        if self.labels:
            distances, nearest = self._nearest(keys)
            columns += [distances[:, None], nearest[:, None], self.radii[nearest.to(self.radii.device)][:, None]]
        count = 1 + len(keys)
        return [
            _Measured(row[0], row[1:count], (row[count], int(row[count + 1]), row[count + 2]) if row[count:] else None)
            for row in torch.cat([in_float64(column) for column in columns], dim=1).tolist()
        ]

    def _take_over(self, placing: _Placing, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the decisions to the codebook."""
        older = len(self)
        changed = sorted(entry for entry in placing.changed if entry < older)
        if self._undo is not None:
            self._undo.append(self._table.copy_of(changed))
        if changed:
            for entry in changed:
                self._table.set_label(entry, placing.label_of(entry))
            radii = torch.tensor([placing.radii[entry] for entry in changed], dtype=torch.float64)
            self.radii[changed] = radii.to(float64_device(keys.device))
        if replaced := sorted(entry for entry in placing.rows if entry < older):
            self.write(replaced, values[[placing.rows[entry] for entry in replaced]])
        added = list(range(older, older + len(placing.added)))
        radii = torch.tensor([placing.radii[entry] for entry in added], dtype=torch.float64).to(
            float64_device(keys.device)
        )
        for entry, key, own in zip(added, placing.added, radii, strict=True):
            self._squares.add(keys[key].square().sum())
            row = {"keys": keys[key], "values": values[placing.rows[entry]], "radii": own}
            self._table.add(placing.label_of(entry), **row)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Distances of one edit of a batch.

    Attributes:
        length: Norm of its key.
        others: Distances of its key from those of the batch.
        nearest: Distance, index and radius of the nearest key in the codebook; None if it is empty.
    """

    length: float
    others: list[float]
    nearest: tuple[float, int, float] | None


class _Placing:
    """Assigns the edits of a batch to entries, on the host; the codebook is written after all are assigned.

    Args:
        labels: Labels of the codebook.
        measured: Distances of each edit.
        radius: Radius of a new key.
        same: See `Codebook.find_or_add`.

    Attributes:
        radii: Radii of entries near an edit, and of new ones.
        rows: For new and replaced entries, the edit whose value they take.
        added: For new entries, in order, the edit whose key they take.
        changed: Entries whose content changed.
    """

    def __init__(self, labels: Sequence[Label], measured: Sequence[_Measured], *, radius: float, same: float) -> None:
        self._older, self._measured = labels, measured
        self._radius, self._same = radius, same
        self._labels: dict[int, Label] = {}
        self._placed = 0
        self.radii: dict[int, float] = {}
        self.rows: dict[int, int] = {}
        self.added: list[int] = []
        self.changed: set[int] = set()

    def label_of(self, entry: int) -> Label:
        """Current label of an entry."""
        return self._labels[entry] if entry in self._labels else self._older[entry]

    def place(self, label: Label) -> int:
        """Assign the next edit to an entry; returns the entry."""
        row, radius = self._placed, self._radius
        self._placed += 1
        distance, near = self._nearest(row)
        one = distance <= self._same * self._measured[row].length
        if one or distance <= self.radii.get(near, 0.0) + radius:
            self.changed.add(near)
            if self.label_of(near) == label:
                self.radii[near] = max(self.radii[near], distance)
                return near
            if one:
                self._labels[near], self.rows[near] = label, row
                return near
            radius = min(radius, distance / 2)
            self.radii[near] = min(self.radii[near], distance / 2)
        entry = len(self._older) + len(self.added)
        self.added.append(row)
        self._labels[entry], self.rows[entry], self.radii[entry] = label, row, radius
        return entry

    def _nearest(self, row: int) -> tuple[float, int]:
        """Distance and index of the entry with the nearest key, the first on ties; infinite distance without one."""
        own, found = self._measured[row], (torch.inf, -1)
        if own.nearest is not None:
            distance, entry, radius = own.nearest
            self.radii.setdefault(entry, radius)
            found = (distance, entry)
        added = ((own.others[key], len(self._older) + number) for number, key in enumerate(self.added))
        return min((found, *added))
