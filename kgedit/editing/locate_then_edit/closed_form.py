"""The one least-squares problem behind ROME, MEMIT and AlphaEdit, in coordinates where its penalty is a multiple of 1.

A change D of a matrix should map each new key to its residual and each past key to zero, and stay small:
min |D K - R|^2 + |D K_past|^2 + penalty |D|^2. MEMIT's penalty tr(D C D^T) becomes |D L|^2 after C = L L^T (whitening),
AlphaEdit's demand D = D P becomes a smaller problem in a basis of P's image; ROME is MEMIT's limit at penalty 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


def ridge(
    residuals: torch.Tensor, keys: torch.Tensor, *, penalty: float, past: torch.Tensor | None = None
) -> torch.Tensor:
    """The minimiser D, outputs x inputs.

    Args:
        residuals: outputs x edits.
        keys: inputs x edits.
        penalty: At least 0; with 0 the new and past keys must be linearly independent.
        past: inputs x earlier edits, or None.
    """
    every = keys if past is None else torch.cat([past, keys], dim=1)
    width, count = every.shape
    if count <= width:
        # Push-through identity: the small problem has one row for each edit.
        gram = every.T @ every + penalty * _identity(count, every)
        return residuals @ _solve(gram, every.T)[count - keys.shape[1] :]
    gram = every @ every.T + penalty * _identity(width, every)
    return _solve(gram, keys @ residuals.T).T


@dataclass(frozen=True, slots=True)
class Whitening:
    """Coordinates in which a second moment C = L L^T is the identity.

    Attributes:
        factor: L, lower triangular.
    """

    factor: torch.Tensor

    @classmethod
    def of(cls, moment: torch.Tensor, *, damping: float) -> Whitening:
        """From C plus `damping` times its mean eigenvalue: C is singular if it was built from few tokens."""
        width = len(moment)
        factor = torch.linalg.cholesky(moment + damping * moment.trace() / width * _identity(width, moment))
        return cls(factor)

    def whiten(self, keys: torch.Tensor) -> torch.Tensor:
        """Keys (inputs x edits) in the new coordinates."""
        found: torch.Tensor = torch.linalg.solve_triangular(self.factor, keys, upper=False)
        return found

    def back(self, change: torch.Tensor) -> torch.Tensor:
        """A change (outputs x inputs) from the new coordinates back in the model's own."""
        found: torch.Tensor = torch.linalg.solve_triangular(self.factor, change, upper=False, left=False)
        return found


def _solve(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))


def _identity(size: int, like: torch.Tensor) -> torch.Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)
