"""Fine-tunes some of a model's parameters with a few steps of an optimizer, Adam in all methods except `galore`.

`ft`, `ft_l` and `ft_m` train edit by edit, all other methods breadth first: epochs of mini-batches over all edits of a
call. Edit by edit, each loss is minimised before the next one, and later edits undo earlier ones; breadth first, every
edit occurs once per epoch, and the end of text is part of the target, as in ordinary fine-tuning.
"""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Editor, EditorState, RunContext
from kgedit.editing.hparams.fine_tuning import BreadthFirstSettings, TrainingSettings
from kgedit.editing.training import examples, fusible, resume_training, seed_for, smaller_batch, training_state
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import ForwardAbove, forward_above
from kgedit.llm.surgery.layers import check_layer
from kgedit.llm.surgery.matrices import EditedMatrix, EditedParameter
from kgedit.llm.training import (
    TargetBatch,
    backward,
    encode_targets,
    loss_scaler,
    prompt_last_loss,
    take_step,
    target_loss,
)
from kgedit.records.cases import Case

TuningSettings = TypeVar("TuningSettings", bound=TrainingSettings)


@dataclass(frozen=True, slots=True)
class _Forward:
    pairs: Sequence[tuple[str, str]]
    targets: TargetBatch
    logits: ForwardAbove


class ParameterTuning(Editor[TuningSettings]):
    """Trains parameters of some blocks; subclasses choose them, and may define the loss and a bound on changes."""

    def __init__(
        self, model: LanguageModel, settings: TuningSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.layers = tuple(check_layer(model, layer) for layer in settings.trained_blocks)
        self._scaler = loss_scaler(model)

    @property
    @abstractmethod
    def trained(self) -> Mapping[str, EditedParameter]:
        """Trained parameters by their names in a saved state."""

    @staticmethod
    def loss(logits: torch.Tensor, targets: TargetBatch) -> torch.Tensor:
        """Training loss from the logits at the targets: cross-entropy of the target with the prompt masked."""
        return target_loss(logits, targets)

    @property
    def norm(self) -> float | None:
        """Maximum change of a weight per call; None means no limit."""
        return None

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Train on all cases together, until the stop loss or the number of steps is reached."""
        with self._training() as optimizer:
            loss = self._steps(examples(cases, self.contexts), optimizer, most=self.settings.steps)
        return AppliedEdits(loss=loss)

    @contextmanager
    def _training(self) -> Iterator[torch.optim.Optimizer]:
        """Context with a new optimizer; parameters require gradients within it and change by at most `norm`."""
        weights = [parameter.editable() for parameter in self.trained.values()]
        optimizer = self._optimizer(weights)
        self._scaler = loss_scaler(self.model)
        if self.norm is not None:
            optimizer.register_step_post_hook(_clamp(weights, self.norm))
        for weight in weights:
            weight.requires_grad_(True)
        try:
            yield optimizer
        finally:
            for weight in weights:
                weight.requires_grad_(False)
                weight.grad = None

    def _optimizer(self, weights: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(weights, lr=self.settings.learning_rate, fused=fusible(weights))

    def _steps(self, pairs: Sequence[tuple[str, str]], optimizer: torch.optim.Optimizer, *, most: int) -> float:
        """Take steps on the same (prompt, target) pairs; returns the loss before the last step, or on stopping."""
        scaler, stop = self._scaler, self.settings.stop_loss
        with self._losses() as loss_of, torch.enable_grad():
            for _ in range(most):
                last = backward(self.model, pairs, loss_of, optimizer=optimizer, scaler=scaler, stop_loss=stop)
                if last <= stop:
                    break
                take_step(optimizer, scaler)
        return last

    @contextmanager
    def _losses(self) -> Iterator[Callable[[Sequence[tuple[str, str]]], torch.Tensor]]:
        """Loss function of pairs; the part below the matrix is recomputed only if the pairs have changed."""
        with ExitStack() as held:
            last: _Forward | None = None

            def loss_of(pairs: Sequence[tuple[str, str]]) -> torch.Tensor:
                nonlocal last
                if last is None or last.pairs != pairs:
                    held.close()
                    targets = encode_targets(self.model, pairs, learn_end=self.settings.learn_end).without_last()
                    above = held.enter_context(forward_above(self.model, self.layers[0], targets))
                    last = _Forward(pairs, targets, above)
                return self.loss(last.logits(), last.targets)

            yield loss_of

    def restore(self) -> None:
        """Restore the model's own parameters."""
        for parameter in self.trained.values():
            parameter.restore()

    def state(self) -> EditorState:
        """Return the trained parameters."""
        return EditorState({name: own.value.detach().float().clone() for name, own in self.trained.items()})

    def load_state(self, state: EditorState) -> None:
        """Write the trained parameters to the model."""
        for name, parameter in self.trained.items():
            parameter.write(state.tensors[name])


class MatrixTuning(ParameterTuning[TuningSettings]):
    """Trains the down-projection of each of its blocks."""

    def __init__(
        self, model: LanguageModel, settings: TuningSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._matrices = {layer: EditedMatrix(model.blocks[layer].down_projection) for layer in self.layers}

    @property
    def trained(self) -> Mapping[str, EditedParameter]:
        """One matrix per block."""
        return {f"weight.{layer}": matrix for layer, matrix in self._matrices.items()}

    def details(self) -> dict[str, Any]:
        """Full names of the trained matrices: in a mixture of experts, one that every token passes."""
        return {**super().details(), "matrices": [self.model.blocks[layer].down.name for layer in self.layers]}


class PromptLastTuning(MatrixTuning[TuningSettings]):
    """The loss of ROME's baselines: every target token predicted at the prompt's last token."""

    @staticmethod
    def loss(logits: torch.Tensor, targets: TargetBatch) -> torch.Tensor:
        """Mean cross-entropy of every target token, predicted at the last token of its prompt."""
        return prompt_last_loss(logits, targets)


def _clamp(weights: Sequence[torch.Tensor], norm: float) -> Callable[..., None]:
    """Hook that keeps weights within `norm` of their current values."""
    starts = [weight.detach().clone() for weight in weights]

    def hook(*_: Any) -> None:
        with torch.no_grad():
            for weight, start in zip(weights, starts, strict=True):
                bound = start + norm  # one copy of the weight, where torch.clamp needs three
                torch.minimum(weight, bound, out=weight)
                torch.sub(start, norm, out=bound)
                torch.maximum(weight, bound, out=weight)

    return hook


EpochSettings = TypeVar("EpochSettings", bound=BreadthFirstSettings)


class BreadthFirstTuning(ParameterTuning[EpochSettings]):
    """Trains parameters in epochs over all edits of a call, shuffled in each epoch."""

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train for several epochs; the loss is the mean over the steps of the last one."""
        pairs = examples(cases, self.contexts)
        epochs, batch = self.epochs_and_batch(len(pairs))
        seed = seed_for(self.seed, cases)
        if len(pairs) <= batch:
            with self._training() as optimizer:
                step = [*pairs, *self.rehearsed(random.Random(seed))]
                return AppliedEdits(loss=self._steps(step, optimizer, most=epochs))
        order = random.Random(seed)
        with self._training() as optimizer:
            begun = resume_training(optimizer, run.resume, scaler=self._scaler) if run.resume else 0
            for epoch in range(epochs):
                order.shuffle(pairs)
                if epoch < begun:
                    continue
                losses = []
                draw = random.Random(f"{seed} {epoch}")  # not `order`, which a resumed call does not advance as far
                for start in range(0, len(pairs), batch):
                    run.progress((epoch + start / len(pairs)) / epochs)
                    step = [*pairs[start : start + batch], *self.rehearsed(draw)]
                    losses.append(self._steps(step, optimizer, most=1))
                if sum(losses) / len(losses) <= self.settings.stop_loss or epoch + 1 == epochs:
                    break
                run.checkpoint(partial(training_state, optimizer, epochs=epoch + 1, scaler=self._scaler))
        return AppliedEdits(loss=sum(losses) / len(losses))

    def rehearsed(self, draw: random.Random) -> Sequence[tuple[str, str]]:  # noqa: ARG002 - for methods that rehearse
        """Further (prompt, answer) pairs for one step, drawn with `draw`; none by default."""
        return ()

    def epochs_and_batch(self, count: int) -> tuple[int, int]:
        """Maximum number of epochs for `count` examples, and number of examples per step.

        As set, except for few examples: first smaller batches, then more epochs, ensure `least_steps` steps.
        """
        epochs, least = self.settings.steps, self.settings.least_steps
        batch = smaller_batch(self.settings.batch, count=count, epochs=epochs, least_steps=least)
        return max(epochs, math.ceil(least / math.ceil(count / batch))), batch
