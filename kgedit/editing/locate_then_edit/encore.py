"""`encore`: MEMIT for long sequences, with memory of past edits, a small penalty on all changes, and early stopping."""

from __future__ import annotations

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.locate_then_edit import deviations
from kgedit.editing.locate_then_edit.accumulated_solve import inverse
from kgedit.editing.locate_then_edit.preserving import PreservingEditor
from kgedit.hparams.locate_then_edit import EncoreSettings


class Encore(PreservingEditor[EncoreSettings]):
    """Like MEMIT with history, with a penalty on the norm of all changes.

    The change of each layer is R K^T (lambda_p C + lambda_n + K_p K_p^T + K K^T)^-1, with K_p the keys of past edits.
    The search for values ends a few steps after all tokens of the target are the most likely.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="ENCORE, arXiv 2502.01636",
    )
    deviations = deviations.ENCORE
    settings_type = EncoreSettings

    @property
    def patience(self) -> int:
        """The setting `patience`."""
        return self.settings.patience

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda_p C + lambda_n."""
        penalty = self.text_penalty(layer)
        penalty.diagonal().add_(self.settings.penalty)
        return inverse(penalty)
