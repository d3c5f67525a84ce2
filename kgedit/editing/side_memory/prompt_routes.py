"""Routes prompts to parts of a memory: once per prompt, separately for each row of a batch, for the whole answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from kgedit.llm.language_model import Reading


@dataclass(frozen=True, slots=True)
class SeenTokens:
    """Inputs and outputs of the layer for some texts, float32.

    Attributes:
        inputs: rows x length x inputs.
        outputs: rows x length x outputs.
        counted: rows x length; True for the tokens of the prompt.
    """

    inputs: torch.Tensor
    outputs: torch.Tensor
    counted: torch.Tensor


def mean_of(distances: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Mean of each row over its counted tokens, 0 if there are none; the arguments are rows x length."""
    mean: torch.Tensor = (distances * counted).sum(1) / counted.sum(1).clamp(min=1)
    return mean


def prompt_tokens(mask: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Mask of prompt tokens, which are neither padding nor answer: rows x length."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    return mask.bool() & (columns <= ends[:, None])


class PromptRoutes(ABC):
    """Chooses a part of the memory when a prompt is read, and remembers it while its answer is decoded."""

    def __init__(self) -> None:
        self._routes: list[int | None] = []

    @abstractmethod
    def choose(self, seen: SeenTokens) -> list[int | None]:
        """Choose the index of a part for each row, or None for the unedited layer."""

    @abstractmethod
    def choose_by_beginning(self, seen: SeenTokens) -> list[int | None]:
        """Like `choose`, if a prompt may end at any token.

        Args:
            seen: Inputs and outputs, with `counted` False for padding.
        """

    def routes_of(self, reading: Reading, inputs: torch.Tensor, outputs: torch.Tensor) -> list[int | None]:
        """Part of the memory for each row of a forward pass; None for the unedited layer.

        Args:
            inputs: Inputs of the layer, rows x length x inputs, float32.
            outputs: Outputs of the layer, rows x length x outputs, float32.
        """
        if reading.ends is not None:
            counted = prompt_tokens(reading.mask, reading.ends).to(inputs.device)
            self._routes = self.choose(SeenTokens(inputs, outputs, counted))
            return self._routes
        cached = reading.mask.shape[1] > inputs.shape[1]
        if reading.ends_unknown and not (cached and len(self._routes) == len(inputs)):
            real = reading.mask[:, -inputs.shape[1] :].to(inputs.device)
            self._routes = self.choose_by_beginning(SeenTokens(inputs, outputs, real))
        if max(reading.rows) >= len(self._routes):  # the cache was filled before there was any copy
            return [None] * len(reading.rows)
        return [self._routes[row] for row in reading.rows]
