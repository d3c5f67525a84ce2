"""`locft_bf`: fine-tuning of one MLP down-projection breadth first: epochs of mini-batches over all edits (LocFT-BF).

Fine-tuning edit by edit drives each loss down before it looks at the next, and later edits undo earlier ones; here
every edit comes by once per epoch. The end of text is part of the target, as in ordinary fine-tuning.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, RunContext
from kgedit.editing.fine_tuning import deviations
from kgedit.editing.fine_tuning.editor import MaskedTuning
from kgedit.editing.randomness import seed_for
from kgedit.editing.resuming import resume_training, training_state
from kgedit.editing.training_examples import examples
from kgedit.hparams.fine_tuning import LocFtSettings
from kgedit.records.cases import Case


class BreadthFirstFineTuning(MaskedTuning[LocFtSettings]):
    """Trains one MLP matrix in epochs over all edits of a call, shuffled in each epoch."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        source="LocFT-BF, arXiv 2509.22072",
    )
    deviations = deviations.LOCFT_BF
    settings_type = LocFtSettings

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train for some epochs; the loss is the mean of the last one's steps."""
        epochs, batch = self.settings.steps, self.settings.batch
        pairs = examples(cases, self.contexts)
        if len(pairs) <= batch:
            return super().apply(cases, run)
        order = random.Random(seed_for(self.seed, cases))
        with self._training() as optimizer:
            begun = resume_training(optimizer, run.resume, scaler=self._scaler) if run.resume else 0
            for epoch in range(epochs):
                order.shuffle(pairs)
                if epoch < begun:
                    continue
                losses = []
                for start in range(0, len(pairs), batch):
                    run.progress((epoch + start / len(pairs)) / epochs)
                    losses.append(self._steps(pairs[start : start + batch], optimizer, most=1))
                if sum(losses) / len(losses) <= self.settings.stop_loss or epoch + 1 == epochs:
                    break
                run.checkpoint(partial(training_state, optimizer, epochs=epoch + 1, scaler=self._scaler))
        return AppliedEdits(loss=sum(losses) / len(losses))
