"""Side copies of one matrix, and the routing of prompts to them: the memory of WISE.

A copy is stored as its difference from the matrix, so that prompts not routed to it keep every bit. A prompt is routed
to the copy with the largest activation, if that reaches the copy's threshold. The choice is made once per prompt, for
each row of a batch separately, and holds for the whole answer. Where the caller does not say where prompts end, the
beginning of the text with the largest activation decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from kgedit.llm.language_model import LanguageModel, Reading
from kgedit.llm.surgery.positions import by_row


@dataclass(slots=True)
class SideCopy:
    """One side copy.

    Attributes:
        change: Copy minus matrix, float32, in the shape of the layer's weight.
        threshold: Smallest activation with which a prompt is routed here.
        prompts: Prompts of the edits that it holds, or a sample of them: those that a merge reads again.
        shortest: Tokens of the shortest prompt of all; 0 without any.
    """

    change: torch.Tensor
    threshold: float = torch.inf
    prompts: tuple[str, ...] = ()
    shortest: int = 0

    def add(self, prompts: Sequence[str], *, shortest: int, most: int) -> None:
        """Note the prompts of further edits.

        Args:
            shortest: Tokens of the shortest of them.
            most: Prompts that are kept.
        """
        self.prompts = sample_of((*self.prompts, *prompts), most)
        self.shortest = min(shortest, self.shortest or shortest)


def sample_of(prompts: tuple[str, ...], most: int) -> tuple[str, ...]:
    """At most so many of the prompts, in their order: those whose hashes are smallest.

    A sample of samples is one of the whole, so that prompts of early edits are as likely in it as those of late ones.
    """
    if len(prompts) <= most:
        return prompts
    order = sorted(range(len(prompts)), key=lambda index: (hashlib.sha256(prompts[index].encode()).digest(), index))
    return tuple(prompts[index] for index in sorted(order[:most]))


def product(layer: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The output of a layer with another weight and no bias."""
    weight = weight.to(inputs.device)  # the user may have moved the model since the edit
    written: torch.Tensor = inputs @ (weight if isinstance(layer, Conv1D) else weight.T)
    return written


def activation(layer: Any, inputs: torch.Tensor, change: torch.Tensor, *, counted: torch.Tensor) -> torch.Tensor:
    """Activation of each row: the norm of the change in output, averaged over its counted tokens.

    Args:
        inputs: rows x length x inputs.
        counted: rows x length, true for the tokens of the prompt.
    """
    lengths = torch.linalg.vector_norm(product(layer, inputs, change), dim=-1)
    mean: torch.Tensor = (lengths * counted).sum(1) / counted.sum(1)
    return mean


def prompt_tokens(mask: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Where a prompt's own tokens are: neither padding nor answer. rows x length."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    return mask.bool() & (columns <= ends[:, None])


class Router:
    """The forward hook that sends each row of a batch through the matrix or through one side copy.

    Args:
        model: Its `reading` says where prompts end.
        layer: The layer whose matrix is copied.
    """

    def __init__(self, model: LanguageModel, layer: Any) -> None:
        self._model = model
        self._layer = layer
        self._routes: list[int | None] = []
        self.copies: list[SideCopy] = []

    def __call__(self, _: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor | None:
        """The forward hook of the layer."""
        reading = self._model.reading
        if reading is None:
            return None
        inputs = by_row(given[0], len(reading.rows)).float()
        routes = self._routes_of(reading, inputs)
        if all(route is None for route in routes):
            return None
        written = by_row(output, len(routes)).clone()
        for number, copy in enumerate(self.copies):
            rows = [row for row, route in enumerate(routes) if route == number]
            if rows:
                added = product(self._layer, inputs[rows], copy.change)
                written[rows] = (written[rows].float() + added).to(output.dtype)
        return written.reshape(output.shape)

    def _routes_of(self, reading: Reading, inputs: torch.Tensor) -> list[int | None]:
        if reading.ends is not None:
            counted = prompt_tokens(reading.mask, reading.ends).to(inputs.device)
            self._routes = self.choose(inputs, counted=counted)
            return self._routes
        cached = reading.mask.shape[1] > inputs.shape[1]
        if reading.ends_unknown and not (cached and len(self._routes) == len(inputs)):
            self._routes = self.choose_by_beginning(inputs, real=reading.mask[:, -inputs.shape[1] :].to(inputs.device))
        if max(reading.rows) >= len(self._routes):  # a cache that was filled before there was any copy
            return [None] * len(reading.rows)
        return [self._routes[row] for row in reading.rows]

    def choose(self, inputs: torch.Tensor, *, counted: torch.Tensor) -> list[int | None]:
        """For each row the index of a side copy, or None for the matrix itself."""
        return _strongest(
            [activation(self._layer, inputs, copy.change, counted=counted) / copy.threshold for copy in self.copies],
            rows=len(inputs),
        )

    def choose_by_beginning(self, inputs: torch.Tensor, *, real: torch.Tensor) -> list[int | None]:
        """As `choose`, where a prompt may end at any token that leaves it as long as the shortest prompt of a copy.

        Args:
            real: rows x length, 0 where tokens are padding.
        """
        shares, counts = [], real.cumsum(1)
        for copy in self.copies:
            lengths = torch.linalg.vector_norm(product(self._layer, inputs, copy.change), dim=-1) * real
            means = lengths.cumsum(1) / counts.clamp(min=1)
            shares.append(means.masked_fill(counts < max(1, copy.shortest), 0.0).amax(1) / copy.threshold)
        return _strongest(shares, rows=len(inputs))


def _strongest(shares: Sequence[torch.Tensor], *, rows: int) -> list[int | None]:
    """For each row the copy whose share of its threshold is largest, if any reaches its threshold."""
    if not shares:
        return [None] * rows
    best, number = torch.stack(list(shares)).max(0)
    return [int(n) if share >= 1 else None for n, share in zip(number, best, strict=True)]


def random_mask(like: torch.Tensor, *, share: float, seed: int) -> torch.Tensor:
    """1 at a random share of the entries, 0 elsewhere; the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(like.shape, generator=generator) < share).to(like)


def margins(edits: torch.Tensor, unrelated: torch.Tensor, *, least: Sequence[float]) -> torch.Tensor:
    """The margin loss, mean over rows.

    Args:
        edits: Activation of each edit's prompt.
        unrelated: Activation of one unrelated prompt for each edit, which must not be routed.
        least: (alpha, beta, gamma): unrelated prompts should stay below alpha, edits above beta, and gamma apart.
    """
    alpha, beta, gamma = least
    losses = (unrelated - alpha).relu() + (beta - edits).relu() + (gamma - (edits - unrelated)).relu()
    return losses.mean()
