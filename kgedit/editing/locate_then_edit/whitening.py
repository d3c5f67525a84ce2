"""Coordinates in which the second moment of a layer's inputs is the identity: ROME's metric."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Whitening:
    """Coordinates in which a second moment C = L L^T is the identity.

    Attributes:
        factor: L, lower triangular.
    """

    factor: torch.Tensor

    @classmethod
    def of(cls, moment: torch.Tensor, *, damping: float) -> Whitening:
        """Create from C plus `damping` times its mean eigenvalue, because C is singular if computed from few tokens."""
        return cls(torch.linalg.cholesky(damped(moment, damping)))

    def whiten(self, keys: torch.Tensor) -> torch.Tensor:
        """Transform keys (inputs x edits) to the new coordinates."""
        found: torch.Tensor = torch.linalg.solve_triangular(self.factor, keys, upper=False)
        return found

    def back(self, change: torch.Tensor) -> torch.Tensor:
        """Transform a change (outputs x inputs) from the new coordinates back to those of the model."""
        found: torch.Tensor = torch.linalg.solve_triangular(self.factor, change, upper=False, left=False)
        return found


def damped(moment: torch.Tensor, share: float) -> torch.Tensor:
    """C plus a share of its mean eigenvalue, because C is singular if computed from few tokens."""
    found = moment.clone()
    found.diagonal().add_(share * moment.trace() / len(moment))
    return found
