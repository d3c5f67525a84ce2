"""Gradients of a training step on a device with little memory or in float16.

A step that does not fit into memory is split, and the gradients of its parts are accumulated. In float16 losses are
scaled, because gradients would otherwise underflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from kgedit.llm.language_model import LanguageModel

Row = TypeVar("Row")

_FIRST_SCALE = 2.0**12
"""Higher scales overflow in the first steps, and each such step is skipped."""


def loss_scaler(model: LanguageModel) -> torch.amp.GradScaler:
    """Return a loss scaler for models in float16; it does nothing for other formats."""
    return torch.amp.GradScaler(model.device.type, init_scale=_FIRST_SCALE, enabled=model.module.dtype == torch.float16)


def backward(
    model: LanguageModel,
    rows: Sequence[Row],
    loss_of: Callable[[Sequence[Row]], torch.Tensor],
    *,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    stop_loss: float | None = None,
) -> float:
    """Compute the gradients of a loss that is a mean over rows.

    Args:
        rows: Rows of the training step.
        loss_of: Function that returns the mean loss of some of the rows.
        optimizer: Optimizer of the parameters, whose previous gradients are cleared.
        stop_loss: If the loss of all rows is at most this, no step is needed, and gradients may be missing.

    Returns:
        The loss of all rows.

    Raises:
        torch.OutOfMemoryError: if a single row does not fit into the device's memory.
    """

    def work(at_once: int) -> float:
        optimizer.zero_grad()
        total = 0.0
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            loss = loss_of(part) * (len(part) / len(rows))
            total += loss.item()
            if len(part) == len(rows) and stop_loss is not None and total <= stop_loss:
                break
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return total

    return model.trained_at_once.run(len(rows), work)


def take_step(optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> None:
    """Take one step with the gradients of `backward`; on overflow, skip it and lower the scale."""
    scaler.step(optimizer)
    scaler.update()


def gradients(model: LanguageModel, loss: torch.Tensor, of: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """Gradients of a loss with respect to tensors; for a model in float16 with loss scaling, returned in float32."""
    if model.module.dtype != torch.float16:
        return torch.autograd.grad(loss, of)
    scale = _FIRST_SCALE
    while True:
        found = torch.autograd.grad(loss * scale, of, retain_graph=True)
        if scale <= 1 or all(bool(gradient.isfinite().all()) for gradient in found):
            return [gradient.float() / scale for gradient in found]
        scale /= 4
