"""`ft_l`: like `ft`, with a bound on the change of each weight per call (FT-L)."""

from __future__ import annotations

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning import deviations
from kgedit.editing.fine_tuning.editor import PromptLastTuning
from kgedit.hparams.fine_tuning import FtlSettings


class ClampedFineTuning(PromptLastTuning[FtlSettings]):
    """Trains one MLP matrix with an L-infinity bound on the change of weights per call."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="FT+L, arXiv 2012.00363; as the baseline of ROME, arXiv 2202.05262 appendix E.1",
    )
    deviations = deviations.FT_L
    settings_type = FtlSettings

    @property
    def norm(self) -> float:
        """The setting `norm`."""
        return self.settings.norm
