"""`ft_l`: as `ft`, and no weight moves further than a bound in one call (FT-L)."""

from __future__ import annotations

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning.editor import PromptLastTuning
from kgedit.hparams.fine_tuning import FtlSettings

_NARROW = 6400
"""Inner units of GPT-2 XL."""


class ClampedFineTuning(PromptLastTuning[FtlSettings]):
    """Trains one matrix within a box around where the call began (an L-infinity bound)."""

    capabilities = Capabilities(
        protocols=("sequential", "single", "per_timestep"),
        changes_weights=True,
        source="FT+L, arXiv 2012.00363; as the baseline of ROME, arXiv 2202.05262 appendix E.1",
    )
    settings_type = FtlSettings
    method = "ft_l"

    @property
    def norm(self) -> float:
        """The setting, or what was published for GPT-2 XL and for the wider GPT-J and Mistral.

        Below GPT-2 XL it grows as the learning rate does, so that the box stays one step of Adam wide: with 5e-4
        SmolLM2-135M cannot move at all (loss 7.6 after 25 steps).
        """
        width = self.model.blocks[self.layer].inner_width
        return self.settings.norm or (5e-4 * _NARROW / width if width <= _NARROW else 5e-5)
