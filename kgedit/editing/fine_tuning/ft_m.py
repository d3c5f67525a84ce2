"""`ft_m`: fine-tuning of one MLP down-projection on the answer with the prompt masked (FT-M)."""

from __future__ import annotations

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning import deviations
from kgedit.editing.fine_tuning.editor import MatrixTuning
from kgedit.hparams.fine_tuning import FtmSettings


class MaskedFineTuning(MatrixTuning[FtmSettings]):
    """Trains one MLP matrix by the mean cross-entropy of the target tokens, with the prompt masked."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="FT-M, arXiv 2401.01286 section 3",
    )
    deviations = deviations.FT_M
    settings_type = FtmSettings

    @property
    def norm(self) -> float | None:
        """The setting `norm`."""
        return self.settings.norm
