"""Memory of WISE: side copies of one matrix, the routing of prompts to them, their training and their merging.

A copy is stored as its difference from the matrix, so that outputs for prompts not routed to it are bitwise unchanged.
A prompt is routed to the copy that moves the layer's output farthest, among those whose threshold is reached. If the
caller does not specify where prompts end, the text prefix with the largest distance decides.

A copy is trained by gradient descent with a target loss, margins, a mask of changes, and replay of past edits (appendix
B.3): copies from earlier merges keep their prompts, because the new copy should not affect those; edits since the last
merge will share a copy with the new ones, which should continue to move them.

A merge sparsifies each copy, agrees on signs and sums (TIES, DARE, and their parts), or interpolates by slerp.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from peft.utils.merge_utils import calculate_majority_sign_mask, prune
from transformers.pytorch_utils import Conv1D

from kgedit.editing.hparams.memory_based import WiseSettings
from kgedit.editing.side_memory.prompt_routes import PromptRoutes, SeenTokens, mean_of, prompt_tokens
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.surgery.structure import by_row
from kgedit.llm.training import TargetBatch, gradients, target_losses


@dataclass(slots=True)
class SideCopy:
    """One side copy.

    Attributes:
        change: Copy minus matrix, float32, in the shape of the layer's weight.
        threshold: Smallest distance at which a prompt is routed to this copy.
        prompts: Prompts of its edits, or a sample of them; used again by merges.
        shortest: Number of tokens of the shortest prompt of all; 0 if there is none.
    """

    change: torch.Tensor
    threshold: float = torch.inf
    prompts: tuple[str, ...] = ()
    shortest: int = 0

    def add(self, prompts: Sequence[str], *, shortest: int, most: int) -> None:
        """Add the prompts of further edits.

        Args:
            shortest: Number of tokens of the shortest of them.
            most: Maximum number of stored prompts.
        """
        self.prompts = sample_of((*self.prompts, *prompts), most)
        self.shortest = min(shortest, self.shortest or shortest)


def sample_of(prompts: tuple[str, ...], most: int) -> tuple[str, ...]:
    """At most `most` of the prompts, in order: those with the smallest hashes.

    A sample of samples is a sample of the whole, so that prompts of early edits are as likely as those of late ones.
    """
    if len(prompts) <= most:
        return prompts
    order = sorted(range(len(prompts)), key=lambda index: (hashlib.sha256(prompts[index].encode()).digest(), index))
    return tuple(prompts[index] for index in sorted(order[:most]))


def product(layer: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The output of a layer with another weight and no bias."""
    weight = weight.to(inputs.device)  # the user may have moved the model after the edit
    written: torch.Tensor = inputs @ (weight if isinstance(layer, Conv1D) else weight.T)
    return written


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance by which a copy moves the layer's output at each token: the activation of WISE.

    Attributes:
        layer: The layer whose matrix is copied.
        activate: The model's activation function, applied first to both outputs, as in the published code; None means
            the outputs themselves, as in the paper (equation 2).
    """

    layer: Any
    activate: Callable[[torch.Tensor], torch.Tensor] | None = None

    def of(self, outputs: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
        """Compute the distance of each token: rows x length.

        Args:
            outputs: Outputs of the matrix, rows x length x outputs, float32.
            added: Change of these outputs by the copy.
        """
        moved = added if self.activate is None else self.activate(outputs + added) - self.activate(outputs)
        found: torch.Tensor = torch.linalg.vector_norm(moved, dim=-1)
        return found

    def of_copy(self, seen: SeenTokens, change: torch.Tensor) -> torch.Tensor:
        """Compute the distance of each token for a copy that differs from the matrix by `change`."""
        return self.of(seen.outputs, product(self.layer, seen.inputs, change))


class Router(PromptRoutes):
    """Forward hook that sends each row of a batch through the matrix or through one side copy.

    Args:
        model: The model, whose `reading` contains the ends of prompts.
        distance: Distance of the layer whose matrix is copied.
        long: Prompts with more tokens are routed by the largest distance of a token instead of the mean; None means
            never.
    """

    def __init__(self, model: LanguageModel, distance: Distance, *, long: int | None) -> None:
        super().__init__()
        self._model = model
        self._distance = distance
        self._long = long
        self.copies: list[SideCopy] = []

    def __call__(self, _: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        """The forward hook of the layer."""
        reading = self._model.reading
        if reading is None:
            return None
        inputs, outputs = (by_row(tensor, len(reading.rows)).float() for tensor in (given[0], output))
        routes = self.routes_of(reading, inputs, outputs)
        if all(route is None for route in routes):
            return None
        written = by_row(output, len(routes)).clone()
        for number, copy in enumerate(self.copies):
            rows = [row for row, route in enumerate(routes) if route == number]
            if rows:
                added = product(self._distance.layer, inputs[rows], copy.change)
                written[rows] = (written[rows].float() + added).to(output.dtype)
        return written.reshape(output.shape)

    def choose(self, seen: SeenTokens) -> list[int | None]:
        """Choose the index of a side copy for each row, or None for the matrix itself."""
        found = []
        for copy in self.copies:
            distances = self._distance.of_copy(seen, copy.change)
            means = mean_of(distances, seen.counted)
            if self._long is not None and seen.counted.shape[1] > self._long:
                strongest = distances.masked_fill(~seen.counted, 0.0).amax(1)
                means = torch.where(seen.counted.sum(1) > self._long, strongest, means)
            found.append(means)
        return self._farthest(found, rows=len(seen.inputs))

    def choose_by_beginning(self, seen: SeenTokens) -> list[int | None]:
        """Like `choose`, if a prompt may end at any token from the length of a copy's shortest prompt on.

        Args:
            seen: Inputs and outputs, with `counted` 0 for padding.
        """
        found, counts = [], seen.counted.cumsum(1)
        for copy in self.copies:
            distances = self._distance.of_copy(seen, copy.change) * seen.counted
            means = distances.cumsum(1) / counts.clamp(min=1)
            if self._long is not None:
                means = torch.where(counts > self._long, distances.cummax(1).values, means)
            found.append(means.masked_fill(counts < max(1, copy.shortest), 0.0).amax(1))
        return self._farthest(found, rows=len(seen.inputs))

    def _farthest(self, distances: Sequence[torch.Tensor], *, rows: int) -> list[int | None]:
        """For each row the copy that moves it farthest, among those whose threshold is reached."""
        if not distances:
            return [None] * rows
        stacked = torch.stack(list(distances))
        thresholds = torch.tensor([copy.threshold for copy in self.copies], device=stacked.device)[:, None]
        best, number = torch.where(stacked >= thresholds, stacked, -torch.inf).max(0)
        routes = torch.where(best >= 0, number, -1).tolist()
        return [None if route < 0 else route for route in routes]


def random_mask(like: torch.Tensor, *, share: float, seed: int) -> torch.Tensor:
    """True at a random share of the entries; the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(like.shape, generator=generator) < share).to(like.device)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merging method.

    Attributes:
        pruning: Method for choosing the entries to keep; None means all.
        rescale: Whether entries kept by random pruning are scaled up to preserve the mean.
        agree: Whether an entry uses only copies with the sign of the sum.
        average: Whether an entry is divided by the weights of the copies that it uses.
    """

    pruning: Literal["magnitude", "random"] | None = None
    rescale: bool = False
    agree: bool = False
    average: bool = False


_MERGES = {
    "ties": _Merge("magnitude", agree=True, average=True),
    "dare_ties": _Merge("random", rescale=True, agree=True),
    "dare_linear": _Merge("random"),
    "magnitude": _Merge("magnitude"),
    "linear": _Merge(),
}


_COLLINEAR = 0.9995
"""Cosine from which two copies are interpolated linearly, as published."""


def merged(changes: Sequence[torch.Tensor], weights: Sequence[float], *, how: str, density: float) -> torch.Tensor:
    """Merge several changes into one.

    Args:
        changes: Copies minus the original matrix.
        weights: Weight of each change.
        how: Value of the setting `merge`.
        density: Share of the entries of each change to keep, except for "linear". "dare_ties" and "dare_linear" choose
            them with torch's random state.
    """
    merge = _MERGES[how]
    kept = [
        change if merge.pruning is None else prune(change, density, method=merge.pruning, rescale=merge.rescale)
        for change in changes
    ]
    shares = torch.tensor(list(weights), device=kept[0].device).view(-1, *[1] * kept[0].dim())
    weighted = torch.stack(kept) * shares
    agreed = calculate_majority_sign_mask(weighted).to(weighted) if merge.agree else torch.ones_like(weighted)
    total = (weighted * agreed).sum(0)
    if not merge.average:
        return total
    taken = (shares * agreed).sum(0)
    return torch.where(taken > 0, total / taken.clamp(min=1e-12), 0.0)


def slerp_midpoint(changes: Sequence[torch.Tensor], original: torch.Tensor) -> torch.Tensor:
    """Midpoint of the arc between two copies (slerp; Shoemake 1985), minus the matrix.

    Args:
        changes: Two copies minus the original matrix.
        original: The matrix.
    """
    one, other = (original + change for change in changes)
    lengths = torch.linalg.vector_norm(one) * torch.linalg.vector_norm(other)
    cosine = (one * other).sum() / lengths
    # sin(t / 2) / sin(t) = 1 / (2 cos(t / 2)), and cos(t / 2) is the root of (1 + cos t) / 2.
    arc = ((1 + cosine) / 2).sqrt().reciprocal() / 2
    share = torch.where(cosine.abs() > _COLLINEAR, 0.5, arc)
    return share * (one + other) - original


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
        edits: Number of edits, each of which may be asked in several contexts.
        prompts: Number of prompts per edit and context.
        subjects: Mask of the tokens of the edits' subjects, rows x length: the margin is between them and the other
            tokens; None means a margin between edits and unrelated prompts.
    """

    targets: TargetBatch
    edits: int
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
                    self._step(change, gradient.mul_(mask), edits=edits.edits)
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

    def _step(self, change: torch.Tensor, gradient: torch.Tensor, *, edits: int) -> None:
        """Take a step of gradient descent on the copy; weight decay applies to all of its weights, as published.

        Args:
            change: Copy minus matrix.
            gradient: Gradient of the mean loss of the batch's edits. It is overwritten: on a large model each further
                tensor of its shape is a fifth of a gibibyte.
            edits: Number of edits in the batch: each moves the copy as far as it would alone.
        """
        settings = self._settings
        with torch.no_grad():
            if settings.decay:
                fading = self._distance.layer.weight.detach().to(change.device) + change
                change -= fading.mul_(settings.decay)
                del fading
            change -= gradient.mul_(self._scale.learning_rate * edits)
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
