"""Keys with radii, labels and values: where an input is near a key, its value stands in for what a layer wrote.

The balls of two keys with different labels never overlap by their own doing: they are cut at half the distance.
Keys, radii, labels and values keep one order, that of their first edits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

Label = tuple[int, ...]
"""Token ids of an answer; labels are equal when all of them are."""


@dataclass(slots=True)
class Codebook:
    """A growing memory of one layer.

    Attributes:
        keys: One input of the layer each, float32.
        values: One output of the layer each, float32.
        radii: Furthest distance at which a key counts, the distance itself included.
        labels: What each value makes the model say.
    """

    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    radii: list[float] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def place(self, key: torch.Tensor, label: Label, value: torch.Tensor, *, radius: float, same: float) -> int:
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
        if not self.keys:
            return self._add(key, label, value, radius)
        distances = torch.linalg.vector_norm(torch.stack(self.keys) - key, dim=1)
        near = int(distances.argmin())
        distance = float(distances[near])
        one = distance <= same * float(torch.linalg.vector_norm(key))
        if one or distance <= self.radii[near] + radius:
            if self.labels[near] == label:
                self.radii[near] = max(self.radii[near], distance)
                return near
            if one:
                self.labels[near] = label
                return near
            half = distance / 2
            self.radii[near] = min(self.radii[near], half)
            radius = min(radius, half)
        return self._add(key, label, value, radius)

    def find(self, queries: torch.Tensor) -> list[int | None]:
        """The nearest key of each query (rows x inputs), where the query lies within its radius."""
        if not self.keys:
            return [None] * len(queries)
        # Differences, not the expansion |a|^2 - 2ab + |b|^2: a key must be at distance 0 from itself.
        keys = torch.stack(self.keys)
        found: list[int | None] = []
        for query in queries.float():
            distances = torch.linalg.vector_norm(keys - query, dim=1)
            near = int(distances.argmin())
            found.append(near if float(distances[near]) <= self.radii[near] else None)
        return found

    def content(self) -> tuple[dict[str, torch.Tensor], list[list[int]]]:
        """All of it as tensors and labels."""
        if not self.keys:
            return {}, []
        tensors = {"keys": torch.stack(self.keys), "values": torch.stack(self.values)}
        tensors["radii"] = torch.tensor(self.radii, dtype=torch.float64)
        return tensors, [list(label) for label in self.labels]

    @classmethod
    def of(
        cls, tensors: Mapping[str, torch.Tensor], labels: Sequence[Sequence[int]], *, device: torch.device
    ) -> Codebook:
        """From what `content` gave."""
        if not labels:
            return cls()
        keys, values = (list(tensors[name].to(device)) for name in ("keys", "values"))
        return cls(keys, values, tensors["radii"].tolist(), [tuple(label) for label in labels])

    def _add(self, key: torch.Tensor, label: Label, value: torch.Tensor, radius: float) -> int:
        self.keys.append(key)
        self.values.append(value)
        self.radii.append(radius)
        self.labels.append(label)
        return len(self.keys) - 1
