"""Memory of MEMOIR: one matrix beside a layer's, of which each edit uses the columns that its prompt selects.

The feature of a prompt is the mean of the layer's inputs over its tokens, minus that of unrelated prompts. Its mask
selects a fixed number of inputs: those of the largest features, mapped by a fixed permutation. A prompt whose mask
shares enough inputs with an edit's mask is answered with that edit's mask, all others by the unedited layer.
"""

from __future__ import annotations

from typing import Any

import torch

from kgedit.editing.row_tables import RowTable, TableRows
from kgedit.editing.side_memory.prompt_routes import PromptRoutes, SeenTokens
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import by_row

_AT_ONCE = 1024
"""Maximum number of features whose masks are compared at once."""


class MaskedMemory(PromptRoutes):
    """Forward hook that adds the product of the memory and a prompt's masked inputs to a layer's output.

    Args:
        model: The model, whose `reading` contains the ends of prompts.
        widths: Outputs and inputs of the layer.
        active: Number of inputs in a mask.
        threshold: Minimum share of a prompt's mask that is in an edit's mask.
        seed: Seed of the permutation.
        device: Device of the layer.

    Attributes:
        weight: The memory, outputs x inputs, float32.
        center: Mean feature of unrelated prompts; None before the first edit.
        permutation: Input that the mask has for each of the layer's inputs.
        shortest: Number of tokens of the shortest prompt of an edit; 0 without edits.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        widths: tuple[int, int],
        active: int,
        threshold: float,
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__()
        self._model, self._active, self._threshold = model, active, threshold
        self._table = RowTable()
        self.weight = torch.zeros(widths, device=device)
        self.center: torch.Tensor | None = None
        self.permutation = torch.randperm(widths[1], generator=torch.Generator().manual_seed(seed)).to(device)
        self.shortest = 0

    def __call__(self, _: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        """The forward hook of the layer."""
        reading = self._model.reading
        if reading is None:
            return None
        inputs, outputs = (by_row(tensor, len(reading.rows)) for tensor in (given[0], output))
        routes = self.routes_of(reading, inputs.float(), outputs)
        rows = [row for row, route in enumerate(routes) if route is not None]
        if not rows:
            return None
        masks = self._table.column("masks").to(inputs.device)[[route for route in routes if route is not None]]
        written = outputs.clone()
        added = (inputs[rows].float() * masks[:, None]) @ self.weight.to(inputs.device).T
        written[rows] = (written[rows].float() + added).to(output.dtype)
        return written.reshape(output.shape)

    @property
    def masks(self) -> torch.Tensor:
        """Masks of the edits, edits x inputs, bool; ValueError without edits."""
        return self._table.column("masks")

    def add(self, mask: torch.Tensor, *, case_id: str, tokens: int) -> None:
        """Add an edit's mask, unless there is an equal one.

        Args:
            mask: bool, of the layer's inputs.
            case_id: Id of the edit.
            tokens: Number of tokens of its prompt.
        """
        if not len(self._table) or not bool((self.masks == mask).all(1).any()):
            self._table.add(case_id, masks=mask)
        self.shortest = min(tokens, self.shortest or tokens)

    def masks_of(self, features: torch.Tensor) -> torch.Tensor:
        """Masks of features (any number x inputs, before centering), bool.

        Args:
            features: Means of the layer's inputs over a prompt's tokens.
        """
        centered = features if self.center is None else features - self.center.to(features.device)
        chosen = self.permutation.to(features.device)[centered.abs().topk(self._active, dim=1).indices]
        return torch.zeros_like(centered, dtype=torch.bool).scatter(1, chosen, True)

    def choose(self, seen: SeenTokens) -> list[int | None]:
        """Choose the edit whose mask shares most inputs with that of each row's prompt."""
        counted = seen.counted[..., None]
        means = (seen.inputs * counted).sum(1) / counted.sum(1).clamp(min=1)
        shares, edits = self._nearest(means)
        return self._routes_from(shares, edits)

    def choose_by_beginning(self, seen: SeenTokens) -> list[int | None]:
        """Like `choose`, for the beginning of each row that shares most, from the length of the shortest prompt on."""
        counted = seen.counted.bool()
        rows, length = counted.shape
        counts = counted.cumsum(1)
        means = (seen.inputs * counted[..., None]).cumsum(1) / counts.clamp(min=1)[..., None]
        shares, edits = self._nearest(means.flatten(0, 1))
        allowed = counted & (counts >= max(1, self.shortest))
        best, column = shares.reshape(rows, length).masked_fill(~allowed, -1.0).max(1)
        return self._routes_from(best, edits.reshape(rows, length).gather(1, column[:, None])[:, 0])

    def content(self) -> TableRows:
        """Return a copy of the masks."""
        return self._table.content()

    def take_changes(self) -> TableRows:
        """Return a copy of the masks that were added since the last call."""
        return self._table.take_changes()

    def load(self, rows: TableRows) -> None:
        """Load the result of `content`."""
        self._table = RowTable()
        if rows.count:
            self._table.apply(rows, device=self.weight.device)

    def _nearest(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For each feature the largest share of its mask that is in an edit's mask, and that edit."""
        if not len(self._table):
            return features.new_full((len(features),), -1.0), torch.zeros(len(features), device=features.device).long()
        masks = self.masks.to(features.device).float().T
        parts = torch.split(features, _AT_ONCE)
        found = [(self.masks_of(part).float() @ masks / self._active).max(1) for part in parts]
        return torch.cat([each.values for each in found]), torch.cat([each.indices for each in found])

    def _routes_from(self, shares: torch.Tensor, edits: torch.Tensor) -> list[int | None]:
        found = torch.where(shares >= self._threshold, edits, -1).tolist()
        return [None if edit < 0 else edit for edit in found]
