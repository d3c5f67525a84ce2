"""`ft`: fine-tuning of one MLP down-projection, every target token predicted at the prompt's last token (FT)."""

from __future__ import annotations

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning import deviations
from kgedit.editing.fine_tuning.editor import PromptLastTuning
from kgedit.hparams.fine_tuning import FineTuningSettings


class FineTuning(PromptLastTuning[FineTuningSettings]):
    """Trains one MLP matrix without a bound on weight changes."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="the baseline FT of ROME, arXiv 2202.05262 appendix E.1",
    )
    deviations = deviations.FT
    settings_type = FineTuningSettings
