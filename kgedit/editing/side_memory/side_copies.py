"""Memory of WISE: side copies of one matrix, the routing of prompts to them, and their merging.

A copy is stored as its difference from the matrix, so that outputs for prompts not routed to it are bitwise unchanged.
A prompt is routed to the copy that moves the layer's output farthest, among those whose threshold is reached. If the
caller does not specify where prompts end, the text prefix with the largest distance decides.

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

from kgedit.editing.side_memory.prompt_routes import PromptRoutes, SeenTokens, mean_of
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.structure import by_row


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
