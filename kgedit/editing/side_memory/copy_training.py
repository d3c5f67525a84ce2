"""Gradient descent on a side copy of WISE: target loss, margins, mask of changes, and replay of past edits.

Replay (appendix B.3): copies from earlier merges keep their prompts, because the new copy should not affect those;
edits since the last merge will share a copy with the new ones, which should continue to move them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from kgedit.editing.hparams.memory_based import WiseSettings
from kgedit.editing.side_memory.prompt_routes import SeenTokens, mean_of, prompt_tokens
from kgedit.editing.side_memory.side_copies import Distance, product
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.surgery.structure import by_row
from kgedit.llm.training import TargetBatch, gradients, target_losses

_PACE = 200.0
"""Learning rate times the mean squared length of the matrix's inputs. Not from the paper."""


@dataclass(frozen=True, slots=True)
class TrainingScale:
    """Factors that scale the published hyperparameters to a model.

    Attributes:
        unit: Unit of alpha, beta and gamma.
        learning_rate: Learning rate of gradient descent.
        margin_weight: Weight of the margin loss; the target loss has weight 1.
    """

    unit: float
    learning_rate: float
    margin_weight: float

    @classmethod
    def from_outputs(
        cls, settings: WiseSettings, *, length: float, distance: float, squared_input: float
    ) -> TrainingScale:
        """Compute the factors that the settings leave open from measures of the matrix W on unrelated prompts.

        The published hyperparameters are numbers for 7B models, so each factor is such that a step has the same effect
        in any model:

        * `unit` is a hundredth of the distance of a copy that erases W's output: the paper's alpha, beta and gamma (5,
          20, 10) then are percentages of the whole output.
        * A step of descent on a gradient g of W's output x changes that output by `learning_rate` |x|^2 g. The product
          of the first two is `_PACE`.
        * A step on the margin changes a distance by about one unit, so no step skips a margin of several. With s the
          share of trained entries and a the slope of the distance (`distance` / `length`; 1 without an activation
          function), the gradient of a distance has length a |x|, and a step along it moves the distance by
          `margin_weight` `learning_rate` s |x|^2 a^2.

        Args:
            length: Mean length of W x.
            distance: Mean distance of a copy that changes W x to 0.
            squared_input: Mean of |x|^2.
        """
        unit = settings.unit or distance / 100
        rate = settings.learning_rate or _PACE / squared_input
        slope = distance / length
        weight = settings.margin_weight or unit / (rate * settings.share * squared_input * slope**2)
        return cls(unit, rate, weight)


@dataclass(frozen=True, slots=True)
class LearnedEdits:
    """A trained copy.

    Attributes:
        change: Copy minus matrix.
        loss: Loss of the targets, before the last step.
        distances: Distance by which the trained copy moves each prompt, over the tokens used for thresholds: edits x
            prompts.
    """

    change: torch.Tensor
    loss: float
    distances: torch.Tensor


@dataclass(frozen=True, slots=True)
class EditedPrompts:
    """The edits of a batch as model input.

    Attributes:
        targets: Prompts with targets of all edits, edit by edit.
        prompts: Number of prompts per edit.
        subjects: Mask of the tokens of the edits' subjects, rows x length: the margin is between them and the other
            tokens; None means a margin between edits and unrelated prompts.
    """

    targets: TargetBatch
    prompts: int
    subjects: torch.Tensor | None = None

    def counted(self, which: Literal["prompt", "read"]) -> torch.Tensor:
        """Mask of the tokens over which a distance is averaged: the prompts', or all with padding; rows x length."""
        own = prompt_tokens(self.targets.mask, self.targets.ends)
        return own if which == "prompt" else torch.ones_like(own)


class CopyTraining:
    """Trains a copy on the edits of one batch.

    Args:
        model: The model; a hook adds the copy's change, and weights do not change.
        layer: Index of the block with the matrix.
        distance: Distance of the matrix's layer.
        settings: Steps, margins, stopping rule, decay and bound.
        scale: Measured or published scale.
    """

    def __init__(
        self, model: LanguageModel, layer: int, distance: Distance, settings: WiseSettings, scale: TrainingScale
    ) -> None:
        self._model, self._layer, self._distance = model, layer, distance
        self._settings, self._scale = settings, scale
        self._moved = torch.empty(0)  # distance by which the copy moves each token of the edits, rows x length

    def run(
        self,
        start: torch.Tensor,
        mask: torch.Tensor,
        edits: EditedPrompts,
        *,
        unrelated: SeenTokens,
        replay: Replay | None = None,
    ) -> LearnedEdits:
        """Run gradient descent until the loss stays below the stop loss, or the maximum number of steps is reached.

        Args:
            start: Copy minus matrix.
            mask: True where gradients may change the copy.
            edits: The edits to learn.
            unrelated: One prompt per edit that it must not affect.
            replay: Past edits.
        """
        settings, scale = self._settings, self._scale
        change, last = start.clone().requires_grad_(True), torch.inf
        with forward_above(self._model, self._layer, edits.targets) as logits, torch.enable_grad():
            aside = self._aside(change, rows=len(edits.targets.ids))
            handle = self._distance.layer.register_forward_hook(aside)
            try:
                for _ in range(settings.steps):
                    answer = answer_loss(logits(), edits.targets, one_token_more=settings.one_token_more)
                    apart = self._apart(change, edits, unrelated, replay)
                    loss = answer + scale.margin_weight * apart.to(answer.device)
                    (gradient,) = gradients(self._model, loss, [change])
                    self._step(change, gradient.mul_(mask))
                    total = loss.item()
                    if total <= settings.stop_loss and abs(total - last) <= settings.stop_change:
                        break
                    last = total
                with torch.no_grad():
                    logits()
            finally:
                handle.remove()
        distances = self._moved_by_edit(
            edits, edits.counted("prompt" if settings.threshold == "least" else settings.counted)
        )
        return LearnedEdits(change.detach(), answer.item(), distances.detach())

    def _apart(
        self, change: torch.Tensor, edits: EditedPrompts, unrelated: SeenTokens, replay: Replay | None
    ) -> torch.Tensor:
        """Margin loss, including past edits."""
        counted = edits.counted(self._settings.counted)
        if edits.subjects is None:
            near = self._moved_by_edit(edits, counted)
            far = mean_of(self._distance.of_copy(unrelated, change), unrelated.counted)
        else:
            near = self._moved_by_edit(edits, edits.subjects)
            far = self._moved_by_edit(edits, counted & ~edits.subjects)
        loss = margins(near, far, least=self._least)
        if replay is None:
            return loss
        alpha, beta, _ = self._least
        return loss + replay.loss(self._distance, change, alpha=alpha, beta=beta)

    def _moved_by_edit(self, edits: EditedPrompts, counted: torch.Tensor) -> torch.Tensor:
        """Distance of each prompt over its counted tokens, edits x prompts."""
        return mean_of(self._moved, counted.to(self._moved.device)).reshape(-1, edits.prompts)

    @property
    def _least(self) -> tuple[float, float, float]:
        own, unit = self._settings, self._scale.unit
        return unit * own.alpha, unit * own.beta, unit * own.gamma

    def _aside(self, change: torch.Tensor, *, rows: int) -> Any:
        """Hook that replaces the layer's output by that of the copy, and records the distance of each token."""

        def aside(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            outputs = output.float()
            added = product(self._distance.layer, given[0].float(), change)
            self._moved = self._distance.of(by_row(outputs, rows), by_row(added, rows))
            return (outputs + added).to(output.dtype)

        return aside

    def _step(self, change: torch.Tensor, gradient: torch.Tensor) -> None:
        """Take a step of gradient descent on the copy; weight decay applies to all of its weights, as published.

        The gradient is overwritten: on a large model each further tensor of its shape is a fifth of a gibibyte.
        """
        settings = self._settings
        with torch.no_grad():
            if settings.decay:
                fading = self._distance.layer.weight.detach().to(change.device) + change
                change -= fading.mul_(settings.decay)
                del fading
            change -= gradient.mul_(self._scale.learning_rate)
            if settings.clamp is not None:
                change.clamp_(-settings.clamp, settings.clamp)


def answer_loss(logits: torch.Tensor, targets: TargetBatch, *, one_token_more: bool) -> torch.Tensor:
    """Mean over rows of the mean negative log-likelihood of the row's target tokens.

    Args:
        logits: rows x ``targets.last`` x vocabulary.
        one_token_more: Divide each row's sum by one more than the row has target tokens: the published code counts the
            prompt's last token, whose loss is 0.
    """
    losses = target_losses(logits, targets)
    if one_token_more:
        tokens = (targets.labels != -100).sum(1)
        losses = losses * tokens / (tokens + 1)
    return losses.mean()


def margins(edits: torch.Tensor, unrelated: torch.Tensor, *, least: Sequence[float]) -> torch.Tensor:
    """The margin loss (equation 3, averaged over violations as in the published code), mean over edits.

    Args:
        edits: Distances of each edit's prompts, edits x prompts.
        unrelated: Distances of one or several unrelated prompts for each edit: edits x prompts.
        least: (alpha, beta, gamma): unrelated prompts should stay below alpha, edits above beta, and gamma apart.
    """
    alpha, beta, gamma = least
    others = unrelated.reshape(len(edits), -1)
    between = (gamma - (edits[:, None] - others[:, :, None])).flatten(1)
    parts = (between, others - alpha, beta - edits)
    losses: torch.Tensor = sum((_mean_above_zero(part) for part in parts), torch.zeros((), device=edits.device))
    return losses


def _mean_above_zero(values: torch.Tensor) -> torch.Tensor:
    """Mean of the positive values of each row, or 0 if there are none; then the mean over rows."""
    above = values.relu()
    return (above.sum(1) / (above > 0).sum(1).clamp(min=1)).mean()


@dataclass(frozen=True, slots=True)
class Replay:
    """Prompts of past edits for training a new one.

    Attributes:
        others: One prompt of each copy from earlier merges.
        own: Prompts of edits since the last merge; None if there are none yet.
    """

    others: SeenTokens
    own: SeenTokens | None

    def loss(self, distance: Distance, change: torch.Tensor, *, alpha: float, beta: float) -> torch.Tensor:
        """Mean excess of the distances of others' prompts over alpha, plus mean shortfall of own ones below beta."""
        loss = (_moved(self.others, distance, change) - alpha).relu().mean()
        if self.own is None:
            return loss
        return loss + (beta - _moved(self.own, distance, change)).relu().mean()


def _moved(seen: SeenTokens, distance: Distance, change: torch.Tensor) -> torch.Tensor:
    return mean_of(distance.of_copy(seen, change), seen.counted)
