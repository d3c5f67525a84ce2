"""TIES: several changes of one matrix made one, without their quarrels (Yadav et al. 2023, arXiv 2306.01708)."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def ties(changes: Sequence[torch.Tensor], *, density: float) -> torch.Tensor:
    """Trim each change to its largest entries, elect a sign per entry, and average the changes that agree with it.

    Args:
        changes: Of the same shape.
        density: Share of the entries of each change that is kept, the largest by magnitude.
    """
    trimmed = torch.stack([_largest(change, density) for change in changes])
    elected = torch.where(trimmed.sum(0) >= 0, 1.0, -1.0)
    agreeing = trimmed.sign() == elected
    return (trimmed * agreeing).sum(0) / agreeing.sum(0).clamp(min=1)


def _largest(change: torch.Tensor, density: float) -> torch.Tensor:
    kept = torch.zeros_like(change).flatten()
    places = change.abs().flatten().topk(int(density * change.numel())).indices
    kept[places] = change.flatten()[places]
    return kept.reshape(change.shape)
