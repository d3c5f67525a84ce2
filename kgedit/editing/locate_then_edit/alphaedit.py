"""`alphaedit`: MEMIT's changes, restricted to directions that other text hardly uses and that keep past edits."""

from __future__ import annotations

from typing import Any

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.locate_then_edit.second_moments import null_space
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.hparams.locate_then_edit import AlphaEditSettings


class AlphaEdit(SeveralLayersEditor[AlphaEditSettings]):
    """As MEMIT, with changes restricted to directions that known facts do not use.

    The change of each layer solves the edits within the null space and maps the keys of all past edits to zero.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="AlphaEdit, arXiv 2410.02355; sequential solve as in arXiv 2605.26670",
    )
    settings_type = AlphaEditSettings

    def details(self) -> dict[str, Any]:
        """As for MEMIT, with the dimension of each layer's null space."""
        found = super().details()
        if found["statistics"] is None:
            return found
        return {**found, "null_space": {str(layer): self.basis(layer).shape[1] for layer in self.layers}}

    def basis(self, layer: int) -> torch.Tensor:
        """Orthonormal columns that span the null space."""
        return null_space(self.second_moment(layer), threshold=self.settings.threshold, relative=self.settings.relative)

    def start(self, layer: int) -> torch.Tensor:
        """The projection on the null space over L2: a change out of it would cost infinitely much."""
        basis = self.basis(layer)
        return basis @ basis.T / self.settings.penalty
