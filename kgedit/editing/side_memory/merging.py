"""Merging of side copies into one: sparsify each, agree on signs, and sum (TIES, DARE, and their parts); or slerp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from peft.utils.merge_utils import calculate_majority_sign_mask, prune


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merging method.

    Attributes:
        pruning: Method for choosing the entries to keep; None means all.
        rescale: Whether entries kept by random pruning are scaled up to preserve the mean.
        agree: Whether an entry uses only copies with the sign of the sum.
        average: Whether an entry is divided by the weights of the copies that it uses.
    """

    pruning: Literal["magnitude", "random"] | None = None
    rescale: bool = False
    agree: bool = False
    average: bool = False


_MERGES = {
    "ties": _Merge("magnitude", agree=True, average=True),
    "dare_ties": _Merge("random", rescale=True, agree=True),
    "dare_linear": _Merge("random"),
    "magnitude": _Merge("magnitude"),
    "linear": _Merge(),
}


_COLLINEAR = 0.9995
"""Cosine from which two copies are interpolated linearly, as published."""


def merged(changes: Sequence[torch.Tensor], weights: Sequence[float], *, how: str, density: float) -> torch.Tensor:
    """Merge several changes into one.

    Args:
        changes: Copies minus the original matrix.
        weights: Weight of each change.
        how: Value of the setting `merge`.
        density: Share of the entries of each change to keep, except for "linear". "dare_ties" and "dare_linear" choose
            them with torch's random state.
    """
    merge = _MERGES[how]
    kept = [
        change if merge.pruning is None else prune(change, density, method=merge.pruning, rescale=merge.rescale)
        for change in changes
    ]
    shares = torch.tensor(list(weights), device=kept[0].device).view(-1, *[1] * kept[0].dim())
    weighted = torch.stack(kept) * shares
    agreed = calculate_majority_sign_mask(weighted).to(weighted) if merge.agree else torch.ones_like(weighted)
    total = (weighted * agreed).sum(0)
    if not merge.average:
        return total
    taken = (shares * agreed).sum(0)
    return torch.where(taken > 0, total / taken.clamp(min=1e-12), 0.0)


def slerp_midpoint(changes: Sequence[torch.Tensor], original: torch.Tensor) -> torch.Tensor:
    """Midpoint of the arc between two copies (slerp; Shoemake 1985), minus the matrix.

    Args:
        changes: Two copies minus the original matrix.
        original: The matrix.
    """
    one, other = (original + change for change in changes)
    lengths = torch.linalg.vector_norm(one) * torch.linalg.vector_norm(other)
    cosine = (one * other).sum() / lengths
    # sin(t / 2) / sin(t) = 1 / (2 cos(t / 2)), and cos(t / 2) is the root of (1 + cos t) / 2.
    arc = ((1 + cosine) / 2).sqrt().reciprocal() / 2
    share = torch.where(cosine.abs() > _COLLINEAR, 0.5, arc)
    return share * (one + other) - original
