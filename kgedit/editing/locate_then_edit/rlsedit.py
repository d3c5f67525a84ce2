"""`rlsedit`: recursive least squares over all edits, regularised to the original weights and outputs on text."""

from __future__ import annotations

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.locate_then_edit import deviations
from kgedit.editing.locate_then_edit.accumulated_solve import inverse
from kgedit.editing.locate_then_edit.preserving import PreservingEditor
from kgedit.hparams.locate_then_edit import RlsEditSettings


class RlsEdit(PreservingEditor[RlsEditSettings]):
    """Each layer minimises sum |W K - V|^2 + lambda^2 |W - W0|^2 + mu^2 |W K0 - V0|^2 over all edits so far.

    K0 K0^T is the second moment C of text times `preserve`. With the defaults of its code (lambda 0, mu 1), it is MEMIT
    with history.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="RLSEdit, arXiv 2601.15686",
    )
    deviations = deviations.RLSEDIT
    settings_type = RlsEditSettings

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda^2 + mu^2 times `preserve` times C."""
        own = self.settings
        penalty = own.keep_outputs**2 * self.text_penalty(layer)
        penalty.diagonal().add_(own.keep_weights**2)
        return inverse(penalty)
