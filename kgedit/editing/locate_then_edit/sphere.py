"""Keeps changes of a matrix away from the main directions of its rows (SPHERE), for any closed-form method.

Rows whose directions are evenly spread over the hypersphere make a stable matrix. A change along the directions that
most rows share makes them less so; SPHERE removes a part of it.
"""

from __future__ import annotations

import torch


def main_directions(weight: torch.Tensor, share: float) -> torch.Tensor:
    """Fewest principal directions of the normalised rows that hold a share of their second moment.

    Args:
        weight: Outputs x inputs, float64.
        share: Minimum share of the trace.

    Returns:
        Orthonormal columns, inputs x directions; at least one.
    """
    rows = weight / torch.linalg.vector_norm(weight, dim=1, keepdim=True).clamp(min=1e-12)
    _, lengths, directions = torch.linalg.svd(rows, full_matrices=False)
    held = lengths.square().cumsum(0) / lengths.square().sum()
    count = int((held < share).sum()) + 1
    main: torch.Tensor = directions[:count].T
    return main


def away_from_main_directions(
    change: torch.Tensor, weight: torch.Tensor, *, strength: float, share: float
) -> torch.Tensor:
    """Remove a part of a change along the main directions of a matrix: change (1 - strength U U^T).

    Args:
        change: Outputs x inputs, float64.
        weight: The matrix before the change, outputs x inputs, float64.
        strength: Share of the component along U that is removed.
        share: See `main_directions`.
    """
    main = main_directions(weight, share)
    kept: torch.Tensor = change - strength * (change @ main) @ main.T
    return kept
