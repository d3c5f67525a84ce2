"""Keys with radii, labels and values: near a key, the key's value replaces the layer's output.

Where the balls of two keys with different labels would overlap, both radii are cut to half the distance. Keys, radii,
labels and values share one order, that of their first edits.

Lookups wait for the device once or twice per call, not once per row.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from kgedit.editing.row_tables import GrowingRows, RowTable, TableRows

Label = tuple[int, ...]
"""Token ids of an answer; labels are equal when all of them are."""

_ROUNDING = 1e-3
"""Upper bound of the rounding error of a sum of products, as a share of the sum; holds for TF32 on GPUs too."""


class Codebook:
    """A growing memory of one layer."""

    def __init__(self) -> None:
        self._table = RowTable()
        self._squares = GrowingRows()

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

    def find_or_add(self, key: torch.Tensor, label: Label, value: torch.Tensor, *, radius: float, same: float) -> int:
        """Find or add the entry of an edit.

        A key far from all others gets a new entry. Near a key with the same label, that key's radius grows to include
        it. Near a key with another label, both radii shrink to half the distance; if both are the same key, the newer
        label and value replace the older.

        Args:
            key: The edit's input.
            label: Token ids of its target.
            value: Initial value of a new entry.
            radius: Radius of a new key.
            same: Distance, as a share of the key's length, up to which two keys count as equal: the same prompt in
                another batch differs in its last bits.

        Returns:
            Index of the entry whose value must be trained to produce `label`.
        """
        if not self.labels:
            return self._add(key, label, value, radius)
        distances, nearest = self._nearest(key[None])
        near, distance = int(nearest), float(distances)
        one = distance <= same * float(torch.linalg.vector_norm(key))
        if one or distance <= float(self.radii[near]) + radius:
            if self.labels[near] == label:
                self.radii[near].clamp_(min=distance)
                self._table.note([near])
                return near
            if one:
                self._table.set_label(near, label)
                self.write([near], value[None])
                return near
            half = distance / 2
            self.radii[near].clamp_(max=half)
            self._table.note([near])
            radius = min(radius, half)
        return self._add(key, label, value, radius)

    def find(self, queries: torch.Tensor) -> torch.Tensor:
        """Of each query (rows x inputs) the nearest key's index, or -1 where it is not within that key's radius."""
        found = torch.full((len(queries),), -1, device=queries.device)
        if not self.labels:
            return found
        queries = queries.to(self.keys)
        within = self._maybe_within(queries).nonzero().flatten()
        if len(within):
            distances, nearest = self._nearest(queries[within])
            hits = torch.where(distances.double() <= self.radii[nearest], nearest, -1)
            found[within.to(found.device)] = hits.to(found.device)
        return found

    def content(self) -> TableRows:
        """A copy of all of it."""
        return self._table.content()

    def take_changes(self) -> TableRows:
        """A copy of the entries that are new or were changed since the last call."""
        return self._table.take_changes()

    @classmethod
    def of(cls, rows: TableRows, *, device: torch.device) -> Codebook:
        """A codebook from what `content` returned."""
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

        Candidates by |a|^2 - 2ab + |b|^2, which is quick and rounds; among them by differences, since a key must be at
        distance 0 from itself.
        """
        keys, squares = self.keys, self._squares.rows
        scores = squares - 2 * queries @ keys.T
        limits = scores.amin(1) + _ROUNDING * (squares.max() + queries.square().sum(1))
        most = int((scores <= limits[:, None]).sum(1).max())
        candidates = scores.topk(most, dim=1, largest=False).indices.sort(dim=1).values  # the first of equals counts
        exact = torch.stack([torch.linalg.vector_norm(keys[column] - queries, dim=1) for column in candidates.T], dim=1)
        best = exact.argmin(1, keepdim=True)
        return exact.gather(1, best)[:, 0], candidates.gather(1, best)[:, 0]

    def _add(self, key: torch.Tensor, label: Label, value: torch.Tensor, radius: float) -> int:
        self._squares.add(key.square().sum())
        row = {"keys": key, "values": value, "radii": torch.tensor(radius, dtype=torch.float64, device=key.device)}
        return self._table.add(label, **row)
