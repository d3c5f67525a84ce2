"""Breadth-first training: epochs of mini-batches over all edits of a call, used by all methods except `ft`, `ft_l` and
`ft_m`.

Fine-tuning edit by edit minimises each loss before the next one, and later edits undo earlier ones; here every edit
occurs once per epoch. The end of text is part of the target, as in ordinary fine-tuning.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from kgedit.editing.editor import NO_RUN, AppliedEdits, RunContext
from kgedit.editing.fine_tuning.editor import ParameterTuning
from kgedit.editing.randomness import seed_for
from kgedit.editing.resuming import resume_training, training_state
from kgedit.editing.training_examples import examples, smaller_batch
from kgedit.hparams.fine_tuning import BreadthFirstSettings
from kgedit.records.cases import Case

EpochSettings = TypeVar("EpochSettings", bound=BreadthFirstSettings)


class BreadthFirstTuning(ParameterTuning[EpochSettings]):
    """Trains parameters in epochs over all edits of a call, shuffled in each epoch."""

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train for several epochs; the loss is the mean over the steps of the last one."""
        pairs = examples(cases, self.contexts)
        epochs, batch = self.epochs_and_batch(len(pairs))
        if len(pairs) <= batch:
            with self._training() as optimizer:
                return AppliedEdits(loss=self._steps(pairs, optimizer, most=epochs))
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

    def epochs_and_batch(self, count: int) -> tuple[int, int]:
        """Maximum number of epochs for `count` examples, and number of examples per step.

        As set, except for few examples: first smaller batches, then more epochs, ensure `least_steps` steps.
        """
        epochs, least = self.settings.steps, self.settings.least_steps
        batch = smaller_batch(self.settings.batch, count=count, epochs=epochs, least_steps=least)
        return max(epochs, math.ceil(least / math.ceil(count / batch))), batch
