"""`memit`: many facts at once, by changes of several MLP down-projections."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.locate_then_edit.closed_form import Whitening, ridge
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.hparams.locate_then_edit import MemitSettings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel


class Memit(SeveralLayersEditor[MemitSettings]):
    """Edits many facts at once in closed form, spread over several layers.

    The change of each layer is R K^T (lambda C + K K^T)^-1.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="MEMIT, arXiv 2210.07229 section 4",
    )
    settings_type = MemitSettings

    def __init__(
        self, model: LanguageModel, settings: MemitSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._whitenings: dict[int, Whitening] = {}

    def change(self, residuals: torch.Tensor, keys: torch.Tensor, *, layer: int) -> torch.Tensor:
        """Ridge regression where C is the identity."""
        if layer not in self._whitenings:
            self._whitenings[layer] = Whitening.of(self.second_moment(layer).matrix, damping=self.settings.damping)
        whitening = self._whitenings[layer]
        return whitening.back(ridge(residuals, whitening.whiten(keys), penalty=self.settings.preserve))
