"""The rank-one parts of a matrix's gradient: what a layer read, and how the loss changes with what it wrote.

The gradient of a linear layer's weight is the sum over tokens of input times output gradient; editors that work on the
parts (UltraEdit, MEND) never need the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.editing.places import by_row
from kgedit.editing.replay import replay_above
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import Lines, target_loss


@dataclass(frozen=True, slots=True)
class Parts:
    """Of one layer, in float32.

    Attributes:
        inputs: rows x length x inputs.
        gradients: rows x length x outputs, of the sum over rows of each row's loss.
    """

    inputs: torch.Tensor
    gradients: torch.Tensor


def gradient_parts(model: LanguageModel, layers: Sequence[int], lines: Lines) -> tuple[list[Parts], float]:
    """Parts at the down-projections of some blocks, by one backward pass that ends at the lowest of them.

    Args:
        layers: Indexes of the blocks, in rising order.

    Returns:
        The parts of each layer, and the mean loss over rows.
    """
    inputs: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []

    def keep(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        # Nothing below the lowest of the layers is trained, so the graph begins at what that layer wrote.
        written = output if output.requires_grad else output.detach().requires_grad_()
        inputs.append(given[0].detach().float())
        outputs.append(written)
        return written.clone()  # Falcon adds to it in place

    with replay_above(model, layers[0], lines) as logits, torch.enable_grad():
        handles = [model.blocks[layer].down_projection.register_forward_hook(keep) for layer in layers]
        try:
            loss = target_loss(logits(), lines)
        finally:
            for handle in handles:
                handle.remove()
        gradients = torch.autograd.grad(loss * len(lines.ids), outputs)
    rows = len(lines.ids)
    parts = [
        Parts(by_row(given, rows), by_row(gradient.float(), rows))
        for given, gradient in zip(inputs, gradients, strict=True)
    ]
    return parts, loss.item()
