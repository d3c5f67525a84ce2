"""`locft_bf`: fine-tuning of one MLP down-projection breadth first (LocFT-BF)."""

from __future__ import annotations

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning import deviations
from kgedit.editing.fine_tuning.breadth_first import BreadthFirstTuning
from kgedit.editing.fine_tuning.editor import MatrixTuning
from kgedit.hparams.fine_tuning import LocFtSettings


class BreadthFirstFineTuning(BreadthFirstTuning[LocFtSettings], MatrixTuning[LocFtSettings]):
    """Trains one MLP matrix in epochs over all edits of a call, shuffled in each epoch."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        source="LocFT-BF, arXiv 2509.22072",
    )
    deviations = deviations.LOCFT_BF
    settings_type = LocFtSettings
