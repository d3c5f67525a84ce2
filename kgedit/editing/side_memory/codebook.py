"""Keys with radii, labels and values: near a key, the key's value replaces the layer's output.

Where the balls of two keys with different labels would overlap, both radii are cut to half the distance. Keys, radii,
labels and values share one order, that of their first edits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

Label = tuple[int, ...]
"""Token ids of an answer; labels are equal when all of them are."""

_ROUNDING = 1e-3
"""Upper bound of the rounding error of a sum of products, as a share of the sum; holds for TF32 on GPUs too."""


class _Rows:
    """A matrix that grows by rows; its capacity doubles, so that adding rows is linear in their number."""

    def __init__(self, rows: torch.Tensor | None = None) -> None:
        self._room = rows
        self._count = 0 if rows is None else len(rows)

    def add(self, row: torch.Tensor) -> None:
        if self._room is None:
            self._room = torch.empty(8, *row.shape, dtype=row.dtype, device=row.device)
        elif self._count == len(self._room):
            self._room = torch.cat([self._room, torch.empty_like(self._room)])
        self._room[self._count] = row
        self._count += 1

    @property
    def rows(self) -> torch.Tensor:
        """A writable view of the rows; ValueError before the first one."""
        if self._room is None:
            raise ValueError("no rows yet")
        return self._room[: self._count]


class Codebook:
    """A growing memory of one layer.

    Attributes:
        labels: Token ids of the target that each key's value produces.
    """

    def __init__(self) -> None:
        self._keys, self._values, self._radii, self._squares = _Rows(), _Rows(), _Rows(), _Rows()
        self.labels: list[Label] = []

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def keys(self) -> torch.Tensor:
        """Entries x inputs: one input of the layer each, float32."""
        return self._keys.rows

    @property
    def values(self) -> torch.Tensor:
        """Entries x outputs: one output of the layer each, float32; writable."""
        return self._values.rows

    @property
    def radii(self) -> torch.Tensor:
        """Largest distance at which each key matches, inclusive; float64."""
        return self._radii.rows

    def find_or_add(self, key: torch.Tensor, label: Label, value: torch.Tensor, *, radius: float, same: float) -> int:
        """Find or add the entry of an edit.

        A key far from all others gets a new entry. Near a key with the same label, that key's radius grows to include
        it. Near a key with another label, both radii shrink to half the distance; if both are the same key, the newer
        label replaces the older.

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
        (distance,), (near,) = self._nearest(key[None])
        one = distance <= same * float(torch.linalg.vector_norm(key))
        if one or distance <= float(self.radii[near]) + radius:
            if self.labels[near] == label:
                self.radii[near].clamp_(min=distance)
                return near
            if one:
                self.labels[near] = label
                return near
            half = distance / 2
            self.radii[near].clamp_(max=half)
            radius = min(radius, half)
        return self._add(key, label, value, radius)

    def find(self, queries: torch.Tensor) -> list[int | None]:
        """The nearest key of each query (rows x inputs), where the query lies within its radius."""
        found: list[int | None] = [None] * len(queries)
        if not self.labels:
            return found
        queries = queries.to(self.keys)
        within = self._maybe_within(queries).nonzero().flatten()
        distances, nearest = self._nearest(queries[within])
        radii = self.radii[nearest].tolist()
        for row, near, distance, radius in zip(within.tolist(), nearest, distances, radii, strict=True):
            found[row] = near if distance <= radius else None
        return found

    def content(self) -> tuple[dict[str, torch.Tensor], list[list[int]]]:
        """A copy of all of it, as tensors and labels."""
        if not self.labels:
            return {}, []
        tensors = {"keys": self.keys.clone(), "values": self.values.clone(), "radii": self.radii.clone()}
        return tensors, [list(label) for label in self.labels]

    @classmethod
    def of(
        cls, tensors: Mapping[str, torch.Tensor], labels: Sequence[Sequence[int]], *, device: torch.device
    ) -> Codebook:
        """A codebook from what `content` returned."""
        codebook = cls()
        if labels:
            parts = (_Rows(tensors[name].to(device, copy=True)) for name in ("keys", "values", "radii"))
            codebook._keys, codebook._values, codebook._radii = parts
            codebook._squares = _Rows(codebook.keys.square().sum(1))
            codebook.labels = [tuple(label) for label in labels]
        return codebook

    def _maybe_within(self, queries: torch.Tensor) -> torch.Tensor:
        """False for queries that are certainly outside every radius: nearly all tokens of a long text."""
        squares, lengths = self._squares.rows, queries.square().sum(1)
        distances = (squares - 2 * queries @ self.keys.T).amin(1) + lengths
        return distances <= float(self.radii.max()) ** 2 + _ROUNDING * (squares.max() + lengths)

    def _nearest(self, queries: torch.Tensor) -> tuple[list[float], list[int]]:
        """Distance and index of the key nearest to each query.

        Candidates by |a|^2 - 2ab + |b|^2, which is quick and rounds; among them by differences, since a key must be at
        distance 0 from itself.
        """
        keys, squares = self.keys, self._squares.rows
        lengths = queries.square().sum(1)
        scores = squares - 2 * queries @ keys.T
        limits = scores.amin(1) + _ROUNDING * (squares.max() + lengths)
        distances, nearest = [], []
        for query, score, limit in zip(queries, scores, limits, strict=True):
            candidates = (score <= limit).nonzero().flatten()
            exact = torch.linalg.vector_norm(keys[candidates] - query, dim=1)
            best = int(exact.argmin())
            distances.append(float(exact[best]))
            nearest.append(int(candidates[best]))
        return distances, nearest

    def _add(self, key: torch.Tensor, label: Label, value: torch.Tensor, radius: float) -> int:
        self._keys.add(key)
        self._squares.add(key.square().sum())
        self._values.add(value)
        self._radii.add(torch.tensor(radius, dtype=torch.float64, device=key.device))
        self.labels.append(label)
        return len(self.labels) - 1
