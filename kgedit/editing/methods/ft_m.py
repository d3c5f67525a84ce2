"""`ft_m`: fine-tuning of one MLP down-projection on the answer with the prompt masked (FT-M)."""

from __future__ import annotations

from dataclasses import dataclass

from kgedit.editing.contract import Capabilities
from kgedit.editing.fine_tuning import FineTuningSettings, MaskedTuning
from kgedit.editing.settings import Bounds, setting


@dataclass(frozen=True, slots=True)
class FtmSettings(FineTuningSettings):
    """Hyperparameters of FT-M."""

    norm: float | None = setting(
        None,
        "furthest that a weight may move per call; None: as published for the model, else any distance",
        bounds=Bounds(above=0),
    )


class MaskedFineTuning(MaskedTuning[FtmSettings]):
    """Trains one matrix, found by structure, by the mean cross-entropy of the target tokens."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="FT-M, arXiv 2401.01286 section 3",
    )
    settings_type = FtmSettings
    method = "ft_m"

    @property
    def norm(self) -> float | None:
        """The setting."""
        return self.settings.norm
