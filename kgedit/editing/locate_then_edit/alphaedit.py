"""`alphaedit`: MEMIT's changes, restricted to directions that other text hardly uses and that preserve past edits."""

from __future__ import annotations

from typing import Any

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.locate_then_edit import deviations
from kgedit.editing.locate_then_edit.second_moments import null_space
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.hparams.locate_then_edit import RELATIVE_THRESHOLD, AlphaEditSettings


class AlphaEdit(SeveralLayersEditor[AlphaEditSettings]):
    """Like MEMIT, with changes restricted to directions that known facts do not use.

    The change of each layer solves for the edits within the null space and maps the keys of all past edits to zero.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="AlphaEdit, arXiv 2410.02355; sequential solve as in arXiv 2605.26670",
    )
    deviations = deviations.ALPHAEDIT
    settings_type = AlphaEditSettings

    def details(self) -> dict[str, Any]:
        """Details of MEMIT, and the dimension of each layer's null space."""
        found = super().details()
        if found["statistics"] is None:
            return found
        return {**found, "null_space": {str(layer): self.basis(layer).shape[1] for layer in self.layers}}

    def basis(self, layer: int) -> torch.Tensor:
        """Orthonormal columns that span the null space."""
        threshold, relative = self._threshold(layer)
        return null_space(self.second_moment(layer), threshold=threshold, relative=relative)

    def _threshold(self, layer: int) -> tuple[float, bool]:
        """Threshold, and whether it is a share of the trace, which is always the case with small statistics."""
        own = self.settings
        if own.relative or self.comparable(layer):
            return own.threshold, own.relative
        return RELATIVE_THRESHOLD, True

    def notes(self) -> list[str]:
        """Notes on the applied threshold, with the reason."""
        layer, own = self.layers[0], self.settings
        tokens, (threshold, relative) = self.second_moment(layer).tokens_per_dimension, self._threshold(layer)
        if relative == own.relative:
            return super().notes()
        return [
            *super().notes(),
            f"the null space holds {threshold:g} of C's trace; the threshold of {own.threshold:g} is not applied: the "
            f"statistics have {tokens:.3g} tokens for each dimension, fewer than {own.enough:g} (settings.enough)",
        ]

    def start(self, layer: int) -> torch.Tensor:
        """Projection onto the null space divided by L2: changes outside of it have infinite cost."""
        basis = self.basis(layer)
        return basis @ basis.T / self.settings.penalty
