"""Replay of past edits in the training of a copy (WISE, appendix B.3).

Copies from earlier merges keep their prompts, because the new copy should not affect those; edits since the last merge
will share a copy with the new ones, which should continue to move them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kgedit.editing.side_memory.side_copies import Distance, SeenTokens, mean_of


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
