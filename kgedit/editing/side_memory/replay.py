"""Past edits that the training of a copy reads again (WISE, appendix B.3).

Copies that were merged before keep their prompts, since the new copy is to leave those alone; edits since the last
merge will share a copy with the new ones, which is to go on moving them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kgedit.editing.side_memory.side_copies import Distance, SeenTokens, mean_of


@dataclass(frozen=True, slots=True)
class Replay:
    """Prompts of past edits beside one that is learned.

    Attributes:
        others: One of each copy that was merged before.
        own: Of edits since the last merge; None where there are none yet.
    """

    others: SeenTokens
    own: SeenTokens | None

    def loss(self, distance: Distance, change: torch.Tensor, *, alpha: float, beta: float) -> torch.Tensor:
        """How far the copy moves others' prompts beyond alpha, and its own less than beta, mean over prompts each."""
        loss = (_moved(self.others, distance, change) - alpha).relu().mean()
        if self.own is None:
            return loss
        return loss + (beta - _moved(self.own, distance, change)).relu().mean()


def _moved(seen: SeenTokens, distance: Distance, change: torch.Tensor) -> torch.Tensor:
    return mean_of(distance.of_copy(seen, change), seen.counted)
