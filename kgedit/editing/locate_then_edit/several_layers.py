"""What MEMIT and AlphaEdit share: values wanted at one block's output, brought about by several blocks below it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, RunContext
from kgedit.editing.locate_then_edit.editor import LocateThenEdit
from kgedit.editing.locate_then_edit.subject_prompts import outputs_at
from kgedit.editing.locate_then_edit.value_search import EditRequest, FoundValues
from kgedit.hparams.locate_then_edit import SeveralLayersSettings
from kgedit.llm.surgery.layer_lists import parse_layers
from kgedit.records.cases import Case

Settings = TypeVar("Settings", bound=SeveralLayersSettings)


class SeveralLayersEditor(LocateThenEdit[Settings]):
    """Searches for z at the output of the highest layer; each layer then brings an equal share of what is missing."""

    def layers_of(self, settings: Settings) -> tuple[int, ...]:
        """Those of the setting."""
        return parse_layers(settings.layers)

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Edit all cases together."""
        fine, failures = self.editable(cases)
        if not fine:
            return AppliedEdits(failures=failures)
        requests, top = [self.request_of(case) for case in fine], self.layers[-1]
        found = self.search(self.model.blocks[top].module, requests, layer=top, run=run)
        wanted = self.wanted(found, requests)
        for index, layer in enumerate(self.layers):
            keys = self.keys(requests, layer=layer)
            missing = wanted - self.reached(requests)
            share = self._before_norm(missing / (len(self.layers) - index), requests, layer=layer)
            self.matrices[layer].add(self.change(share.T.to(keys.device), keys, layer=layer).T)
        self.remember(requests)
        return AppliedEdits(loss=sum(found.losses) / len(found.losses), failures=failures)

    @abstractmethod
    def change(self, residuals: torch.Tensor, keys: torch.Tensor, *, layer: int) -> torch.Tensor:
        """Change of a layer's matrix (outputs x inputs) from residuals (outputs x edits) and keys (inputs x edits)."""

    def wanted(self, found: FoundValues, requests: Sequence[EditRequest]) -> torch.Tensor:  # noqa: ARG002 - for those who override
        """z of each edit, edits x width, in float64."""
        return found.before.double() + found.added.double()

    def remember(self, requests: Sequence[EditRequest]) -> None:
        """Called after each batch of edits."""

    def reached(self, requests: Sequence[EditRequest]) -> torch.Tensor:
        """Outputs of the highest layer for the bare prompts now, edits x width, in float64."""
        top = self.layers[-1]
        bare = [request.prompts[0] for request in requests]
        return outputs_at(self.model, self.model.blocks[top].module, bare, layer=top).double()

    def keys(self, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """One key per edit, inputs x edits: the mean of the bare prompt's and of the mean over the others."""
        rows = self.key_rows(requests, layer=layer)
        groups = [(own[0] + own[1:].mean(0)) / 2 if len(own) > 1 else own[0] for own in rows]
        return torch.stack(groups, dim=1)

    def _before_norm(self, share: torch.Tensor, requests: Sequence[EditRequest], *, layer: int) -> torch.Tensor:
        """What the down-projection must give more for its block to give `share` more.

        The same, unless a norm stands between (Gemma 2 and 3): then by the norm's scale of each element now.
        """
        block = self.model.blocks[layer]
        if block.norm_after_mlp is None:
            return share
        bare = [request.prompts[0] for request in requests]
        given = outputs_at(self.model, block.down_projection, bare, layer=layer)
        with torch.no_grad():
            scale: torch.Tensor = block.norm_after_mlp(given).double() / given.double()
        return share / scale.to(share.device)
