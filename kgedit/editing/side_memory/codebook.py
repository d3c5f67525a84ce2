"""Keys with radii, labels and values: where an input is near a key, its value stands in for what a layer wrote.

The balls of two keys with different labels never overlap by their own doing: they are cut at half the distance.
Keys, radii, labels and values keep one order, that of their first edits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

Label = tuple[int, ...]
"""Token ids of an answer; labels are equal when all of them are."""

_ROUNDING = 1e-3
"""More than what a sum of products loses, as a share of what is summed, TF32 on GPUs included."""


class _Rows:
    """A matrix that grows by rows: room is doubled, so that a row is copied a few times and not at every look."""

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
        """A view, writable; none before the first row."""
        if self._room is None:
            raise ValueError("no rows yet")
        return self._room[: self._count]


class Codebook:
    """A growing memory of one layer.

    Attributes:
        labels: What the value of each key makes the model say.
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
        """Entries x outputs: one output of the layer each, float32; to be written to."""
        return self._values.rows

    @property
    def radii(self) -> torch.Tensor:
        """Furthest distance at which each key counts, the distance itself included; float64."""
        return self._radii.rows

    def find_or_add(self, key: torch.Tensor, label: Label, value: torch.Tensor, *, radius: float, same: float) -> int:
        """Find or make the entry of an edit.

        A key that is far from all others is new. Near one of the same label, that one's radius widens to reach it.
        Near one of another label, both get half the distance; where the two are the same key, the newer label wins.

        Args:
            key: The edit's input.
            label: Its answer.
            value: Where the learning of a new entry starts.
            radius: Of a new key.
            same: Distance, as a share of the key's length, up to which two keys are one and the same: reading a prompt
                twice in different batches does not give every bit again.

        Returns:
            Index of the entry whose value must now say `label`.
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
        """From what `content` gave."""
        codebook = cls()
        if labels:
            parts = (_Rows(tensors[name].to(device, copy=True)) for name in ("keys", "values", "radii"))
            codebook._keys, codebook._values, codebook._radii = parts
            codebook._squares = _Rows(codebook.keys.square().sum(1))
            codebook.labels = [tuple(label) for label in labels]
        return codebook

    def _maybe_within(self, queries: torch.Tensor) -> torch.Tensor:
        """False for the queries that certainly lie within no key's radius, which are nearly all of a long text."""
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
