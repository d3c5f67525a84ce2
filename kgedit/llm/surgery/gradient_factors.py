"""Rank-one factors of a matrix's gradient: a layer's inputs, and the gradients of the loss with respect to its outputs.

The gradient of a linear layer's weight is the sum over tokens of input times output gradient; editors that work on the
factors (UltraEdit, MEND, CrispEdit) never need the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import forward_above
from kgedit.llm.surgery.layers import MlpMatrix
from kgedit.llm.surgery.structure import by_row, hooks
from kgedit.llm.training import TargetBatch, gradients, target_loss


@dataclass(frozen=True, slots=True)
class GradientFactors:
    """Gradient factors of one layer, in float32.

    Attributes:
        inputs: rows x length x inputs.
        gradients: rows x length x outputs; gradients of the sum over rows of each row's loss.

    Both are on the device of the tokens, whatever the layer's device.
    """

    inputs: torch.Tensor
    gradients: torch.Tensor


def gradient_factors(
    model: LanguageModel, matrices: Sequence[MlpMatrix], targets: TargetBatch
) -> tuple[list[GradientFactors], float]:
    """Compute the factors of linear layers, by a backward pass that ends at the lowest of them.

    Args:
        matrices: The layers, from the lowest block upwards.

    Returns:
        The factors of each layer, in the same order, and the mean loss over rows.

    Raises:
        torch.OutOfMemoryError: if a single row does not fit into the device's memory.
    """
    rows = len(targets.ids)

    def work(at_once: int) -> tuple[list[GradientFactors], float]:
        parts = [targets.rows(start, start + at_once) for start in range(0, rows, at_once)]
        found = [_factors_of_part(model, matrices, part) for part in parts]
        losses = [loss * len(part.ids) / rows for (_, loss), part in zip(found, parts, strict=True)]
        return [_joined(factors) for factors in zip(*(factors for factors, _ in found), strict=True)], sum(losses)

    return model.trained_at_once.run(rows, work)


def _joined(parts: Sequence[GradientFactors]) -> GradientFactors:
    """One layer's factors for all rows."""
    if len(parts) == 1:
        return parts[0]
    return GradientFactors(torch.cat([part.inputs for part in parts]), torch.cat([part.gradients for part in parts]))


def _factors_of_part(
    model: LanguageModel, matrices: Sequence[MlpMatrix], targets: TargetBatch
) -> tuple[list[GradientFactors], float]:
    inputs: dict[str, torch.Tensor] = {}
    outputs: dict[str, torch.Tensor] = {}

    def record(matrix: MlpMatrix) -> Any:
        def hook(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            # Nothing below the lowest layer is trained, so the graph begins at that layer's output.
            written = output if output.requires_grad else output.detach().requires_grad_()
            inputs[matrix.name] = given[0].detach().to(targets.ids.device).float()
            outputs[matrix.name] = written
            return written.clone()  # Falcon adds to it in place

        return hook

    with forward_above(model, matrices[0].block, targets) as logits, torch.enable_grad():
        with hooks(*(matrix.module.register_forward_hook(record(matrix)) for matrix in matrices)):
            loss = target_loss(logits(), targets)
        found = gradients(model, loss * len(targets.ids), [outputs[matrix.name] for matrix in matrices])
    rows = len(targets.ids)
    factors = [
        GradientFactors(by_row(inputs[matrix.name], rows), by_row(gradient.to(targets.ids.device).float(), rows))
        for matrix, gradient in zip(matrices, found, strict=True)
    ]
    return factors, loss.item()
