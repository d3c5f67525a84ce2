"""The rank-one parts of a matrix's gradient: what a layer read, and how the loss changes with what it wrote.

The gradient of a linear layer's weight is the sum over tokens of input times output gradient; editors that work on the
parts (UltraEdit, MEND) never need the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.editing.layers import Place
from kgedit.editing.places import by_row
from kgedit.editing.replay import replay_above
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.structure import hooks
from kgedit.llm.targets import Lines, target_loss


@dataclass(frozen=True, slots=True)
class Parts:
    """Of one layer, in float32.

    Attributes:
        inputs: rows x length x inputs.
        gradients: rows x length x outputs, of the sum over rows of each row's loss.

    Both are where the tokens are, wherever the layer is.
    """

    inputs: torch.Tensor
    gradients: torch.Tensor


def gradient_parts(model: LanguageModel, places: Sequence[Place], lines: Lines) -> tuple[list[Parts], float]:
    """Parts at linear layers of some blocks, by one backward pass that ends at the lowest of them.

    Args:
        places: The layers, those of the lowest block first.

    Returns:
        The parts of each layer, in the same order, and the mean loss over rows.
    """
    inputs: dict[str, torch.Tensor] = {}
    outputs: dict[str, torch.Tensor] = {}

    def keep(place: Place) -> Any:
        def hook(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            # Nothing below the lowest of the layers is trained, so the graph begins at what that layer wrote.
            written = output if output.requires_grad else output.detach().requires_grad_()
            inputs[place.name] = given[0].detach().to(lines.ids.device).float()
            outputs[place.name] = written
            return written.clone()  # Falcon adds to it in place

        return hook

    with replay_above(model, places[0].block, lines) as logits, torch.enable_grad():
        with hooks(*(place.module.register_forward_hook(keep(place)) for place in places)):
            loss = target_loss(logits(), lines)
        gradients = torch.autograd.grad(loss * len(lines.ids), [outputs[place.name] for place in places])
    rows = len(lines.ids)
    parts = [
        Parts(by_row(inputs[place.name], rows), by_row(gradient.to(lines.ids.device).float(), rows))
        for place, gradient in zip(places, gradients, strict=True)
    ]
    return parts, loss.item()
