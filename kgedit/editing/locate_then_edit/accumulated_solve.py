"""Least squares over all edits so far at constant cost: one matrix per edited layer represents all past edits.

The edited matrix W minimises sum |W K_i - V_i|^2 + tr((W - W0) A (W - W0)^T) over the edits' keys K_i and values V_i.
Methods differ only in the penalty A: AlphaEdit's is infinite outside its null space, MEMIT's is lambda C. The state is
M, the inverse of A + sum K_i K_i^T; new edits update it by the Woodbury identity, so neither time nor memory depends on
the number of past edits.
"""

from __future__ import annotations

import torch

from kgedit.errors import SpecError

AT_ONCE = 256
"""Maximum number of edits solved together, and of edits waiting to be folded into the matrix.

With 1,536 inputs, factorising the system of this many edits costs 1 % of the product of M with their keys (256^3 / 3 to
1,536^2 x 256 multiplications).
"""

_EXACT = 1e-6
"""Maximum rounding error of a withdrawal, relative to the divisor."""


class AccumulatedSolve:
    """M of one layer, as a matrix and up to `AT_ONCE` edits not yet folded into it.

    A single edit costs one product of M with its keys; the rank-one changes of M are applied together, as one matrix
    product. All computations are in float64.

    Args:
        start: M before the first edit, inputs x inputs, symmetric; changed in place once edits are folded.

    Attributes:
        folded: Whether `start` has been changed.
        largest: Largest element of `start`, to which all rounding errors are relative.
    """

    def __init__(self, start: torch.Tensor, *, largest: float | None = None) -> None:
        self.largest = float(start.diagonal().max()) if largest is None else largest
        self._matrix = start
        self._waiting = start.new_empty(0, len(start))  # M is the matrix minus X^T X, for these rows X
        self._count = 0
        self.folded = False

    def __len__(self) -> int:
        """Number of inputs."""
        return len(self._matrix)

    @property
    def waiting(self) -> torch.Tensor:
        """Rows not folded yet: edits x inputs."""
        return self._waiting[: self._count]

    @property
    def matrix(self) -> torch.Tensor:
        """M without the waiting edits."""
        return self._matrix

    def times(self, keys: torch.Tensor) -> torch.Tensor:
        """M K, for keys of inputs x edits."""
        found = self._matrix @ keys
        return found - self.waiting.T @ (self.waiting @ keys) if self._count else found

    def change(self, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Like `add`, but without recording the edits."""
        if keys.shape[1] + self._count > AT_ONCE:
            return self.copy().add(residuals, keys)
        left, right = self._solve(residuals, keys)
        return left @ right

    def add(self, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the change of W (outputs x inputs) for new edits, and record them as past edits.

        Args:
            residuals: V - W K, outputs x edits.
            keys: K, inputs x edits.
        """
        changes: list[torch.Tensor] = []
        for start in range(0, keys.shape[1], AT_ONCE):
            own, missing = keys[:, start : start + AT_ONCE], residuals[:, start : start + AT_ONCE]
            if changes:
                missing = missing - changes[0] @ own
            left, right = self._solve(missing, own)
            self._wait(right)
            changes = [changes[0].addmm_(left, right)] if changes else [left @ right]
        return changes[0]

    def check_withdrawal(self, keys: torch.Tensor) -> None:
        """Raise if edits cannot be withdrawn because rounding hides the state before them.

        Raises:
            SpecError: if their keys outweigh the penalty too much.
        """
        # A withdrawal divides by 1 - k^T M k, the squared pivots. Rounding of M changes k^T M k by about its largest
        # element times |k|^2, so a squared pivot of that size is noise.
        pivots, failed = torch.linalg.cholesky_ex(_identity(keys) - keys.T @ self.times(keys))
        rounding = torch.finfo(keys.dtype).eps * self.largest * float(keys.square().sum(0).max())
        if int(failed) or float(pivots.diagonal().min()) ** 2 * _EXACT < rounding:
            raise SpecError(["the penalty is too small relative to the edits' keys: they cannot be withdrawn exactly"])

    def withdraw(self, deviations: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the change of W that removes edits, and remove them from M.

        Args:
            deviations: V - W K of these edits with the current W, outputs x edits.
            keys: K, inputs x edits, which must pass `check_withdrawal`.
        """
        self._fold()
        # Waiting rows are subtracted from M. A withdrawal adds to it, so it cannot wait among them.
        left, right = self._solve(deviations, keys, sign=-1)
        self._matrix.addmm_(right.T, right)
        self.folded = True
        return -(left @ right)

    def copy(self) -> AccumulatedSolve:
        """Return a copy that can be changed independently."""
        return AccumulatedSolve.of(self._matrix.clone(), self.waiting, largest=self.largest)

    def clear(self) -> None:
        """Remove all edits that are not folded."""
        self._count = 0

    @classmethod
    def of(
        cls, matrix: torch.Tensor, waiting: torch.Tensor | None, *, largest: float | None = None
    ) -> AccumulatedSolve:
        """Create a solve from the parts of another; without `largest`, nothing is folded into the matrix."""
        found = cls(matrix, largest=largest)
        if waiting is not None:
            found._wait(waiting)
        found.folded = largest is not None
        return found

    def _solve(
        self, residuals: torch.Tensor, keys: torch.Tensor, *, sign: int = 1
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two factors of R S^-1 (M K)^T, with S = 1 + K^T M K, or 1 - K^T M K for withdrawals."""
        spread = self.times(keys)
        factor = torch.linalg.cholesky(_identity(keys) + sign * keys.T @ spread)
        right = torch.linalg.solve_triangular(factor, spread.T, upper=False)
        return torch.linalg.solve_triangular(factor, residuals.T, upper=False).T, right

    def _wait(self, rows: torch.Tensor) -> None:
        if self._count + len(rows) > AT_ONCE:
            self._fold()
        if not len(self._waiting):
            self._waiting = self._matrix.new_empty(AT_ONCE, len(self._matrix))
        self._waiting[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def _fold(self) -> None:
        if self._count:
            self._matrix.addmm_(self.waiting.T, self.waiting, alpha=-1)
            self._count, self.folded = 0, True


def inverse(penalty: torch.Tensor) -> torch.Tensor:
    """Invert a symmetric positive definite matrix."""
    found: torch.Tensor = torch.cholesky_inverse(torch.linalg.cholesky(penalty))
    return found


def _identity(keys: torch.Tensor) -> torch.Tensor:
    return torch.eye(keys.shape[1], dtype=keys.dtype, device=keys.device)
