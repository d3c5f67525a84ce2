"""`memit`: many facts at once, by changes of several MLP down-projections."""

from __future__ import annotations

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.locate_then_edit import deviations
from kgedit.editing.locate_then_edit.accumulated_solve import inverse
from kgedit.editing.locate_then_edit.preserving import PreservingEditor
from kgedit.hparams.locate_then_edit import MemitSettings


class Memit(PreservingEditor[MemitSettings]):
    """Edits many facts at once in closed form, spread over several layers.

    The change of each layer is R K^T (lambda C + K K^T)^-1. With `history`, K K^T is summed over all edits so far, so
    that new edits preserve the old ones.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="MEMIT, arXiv 2210.07229 section 4; history as in arXiv 2605.26670",
    )
    deviations = deviations.MEMIT
    settings_type = MemitSettings

    @property
    def remembers(self) -> bool:
        """The setting `history`."""
        return self.settings.history

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda C."""
        return inverse(self.text_penalty(layer))
