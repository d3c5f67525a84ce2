"""`alphaedit`: MEMIT's changes, restricted to directions that other text hardly uses and that keep past edits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from kgedit.editing.editor import Capabilities, EditorState
from kgedit.editing.locate_then_edit.closed_form import ridge
from kgedit.editing.locate_then_edit.second_moments import null_space
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.editing.locate_then_edit.value_search import EditRequest, FoundValues
from kgedit.hparams.locate_then_edit import AlphaEditSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel


class AlphaEdit(SeveralLayersEditor[AlphaEditSettings]):
    """As MEMIT, with changes restricted to directions that known facts do not use.

    The change of each layer solves the edits within the null space and maps the keys of all past edits to zero.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="AlphaEdit, arXiv 2410.02355; sequential solve as in arXiv 2605.26670; anchor, arXiv 2602.02543",
    )
    settings_type = AlphaEditSettings

    def __init__(
        self, model: LanguageModel, settings: AlphaEditSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._bases: dict[int, torch.Tensor] = {}
        self._past: dict[int, torch.Tensor] = {}

    def details(self) -> dict[str, Any]:
        """As for MEMIT, with the dimension of each layer's null space."""
        found = super().details()
        if found["statistics"] is None:
            return found
        return {**found, "null_space": {str(layer): self.basis(layer).shape[1] for layer in self.layers}}

    def basis(self, layer: int) -> torch.Tensor:
        """Orthonormal columns that span the null space."""
        if layer not in self._bases:
            own = self.settings
            self._bases[layer] = null_space(self.second_moment(layer), threshold=own.threshold, relative=own.relative)
        return self._bases[layer]

    def change(self, residuals: torch.Tensor, keys: torch.Tensor, *, layer: int) -> torch.Tensor:
        """Ridge regression in coordinates of the null space, with the past edits' keys."""
        basis, past = self.basis(layer), self._past.get(layer)
        reduced = None if past is None else basis.T @ past
        return ridge(residuals, basis.T @ keys, penalty=self.settings.penalty, past=reduced) @ basis.T

    def remember(self, requests: Sequence[EditRequest]) -> None:
        """Store the edits' keys as the edited model computes them."""
        for layer in self.layers:
            new = self.keys(requests, layer=layer)
            self._past[layer] = torch.cat([self._past[layer], new], dim=1) if layer in self._past else new

    def wanted(self, found: FoundValues, requests: Sequence[EditRequest]) -> torch.Tensor:
        """With the anchor, z scaled to the norm of the unedited model's output for the same prompt."""
        wanted = super().wanted(found, requests)
        if not self.settings.anchor:
            return wanted
        with ExitStack() as stack:
            for matrix in self.matrices.values():
                stack.enter_context(matrix.original())
            norm = self.reached(requests).norm(dim=1, keepdim=True)
        scaled: torch.Tensor = wanted * norm / wanted.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return scaled

    def restore(self) -> None:
        """Restore the matrices and forget past edits."""
        super().restore()
        self._past = {}

    def state(self) -> EditorState:
        """The past keys too."""
        state = super().state()
        past = {f"past.{layer}": keys.clone() for layer, keys in self._past.items()}
        return EditorState({**state.tensors, **past}, state.record)

    def load_state(self, state: EditorState) -> None:
        """The past keys too."""
        super().load_state(state)
        self._past = {
            layer: state.tensors[f"past.{layer}"].to(self.matrices[layer].weight.device)
            for layer in self.layers
            if f"past.{layer}" in state.tensors
        }
