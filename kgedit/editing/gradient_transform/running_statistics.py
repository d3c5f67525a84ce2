"""Running mean, standard deviation and covariance of vectors: one pass, same result for any batch size."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kgedit.llm.devices import float64_device, in_float64


@dataclass(slots=True)
class RunningStatistics:
    """Count, mean and sum of squared deviations of each feature, in float64 (Chan, Golub and LeVeque 1979).

    Attributes:
        count: Number of vectors seen.
        mean: Mean of each feature.
        squares: Sum of squared deviations from the mean.
    """

    count: int
    mean: torch.Tensor
    squares: torch.Tensor

    @classmethod
    def empty(cls, width: int, device: torch.device) -> RunningStatistics:
        """Create statistics without vectors."""
        zeros = torch.zeros(width, dtype=torch.float64, device=float64_device(device))
        return cls(0, zeros, zeros.clone())

    def add(self, vectors: torch.Tensor) -> None:
        """Add vectors: vectors x features, at least one."""
        vectors = in_float64(vectors)
        more, mean = len(vectors), vectors.mean(0)
        total = self.count + more
        step = mean - self.mean
        self.squares = self.squares + (vectors - mean).square().sum(0) + step.square() * self.count * more / total
        self.mean = self.mean + step * more / total
        self.count = total

    def normalize(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return z-scores of vectors under the current statistics, in float64.

        A single vector equals its mean and has no standard deviation, so its score would be 0/0. With fewer than two
        vectors seen, the mean is taken as 0 and the standard deviation as the vector's root mean square, which gives
        scores of the usual size.
        """
        vectors = in_float64(vectors)
        tiny = torch.finfo(torch.float64).tiny
        if self.count < 2:
            return vectors / vectors.square().mean(-1, keepdim=True).sqrt().clamp(min=tiny)
        spread = (self.squares / (self.count - 1)).sqrt()
        # A constant feature carries no information; dividing by its standard deviation would amplify noise.
        return torch.where(spread > 1e-12, (vectors - self.mean) / spread.clamp(min=1e-12), 0.0)


@dataclass(slots=True)
class RunningCovariance:
    """Count, mean and scatter matrix of vectors, in float64 (Chan, Golub and LeVeque 1979).

    Attributes:
        count: Number of vectors seen.
        mean: Mean of each feature.
        scatter: Sum of (v - mean)(v - mean)^T, features x features.
    """

    count: int
    mean: torch.Tensor
    scatter: torch.Tensor

    @classmethod
    def empty(cls, width: int, device: torch.device) -> RunningCovariance:
        """Create statistics without vectors."""
        zeros = torch.zeros(width, width, dtype=torch.float64, device=float64_device(device))
        return cls(0, zeros[0].clone(), zeros)

    def add(self, vectors: torch.Tensor) -> None:
        """Add vectors: vectors x features, at least one."""
        vectors = in_float64(vectors)
        more, mean = len(vectors), vectors.mean(0)
        total, step, centred = self.count + more, mean - self.mean, vectors - mean
        self.scatter = self.scatter + centred.T @ centred + torch.outer(step, step) * (self.count * more / total)
        self.mean = self.mean + step * more / total
        self.count = total

    def copy(self) -> RunningCovariance:
        """Return a copy that can be changed independently."""
        return RunningCovariance(self.count, self.mean.clone(), self.scatter.clone())

    @property
    def can_whiten(self) -> bool:
        """Whether enough vectors were seen for the covariance to be invertible."""
        return self.count > len(self.mean) + 1

    def whiten(self, vectors: torch.Tensor, *, floor: float) -> torch.Tensor:
        """(v - mean) S^(-1/2), with S the scatter over count - features - 1, if `can_whiten`.

        Args:
            vectors: vectors x features.
            floor: Lower bound on the eigenvalues of S.
        """
        spread = self.scatter / (self.count - len(self.mean) - 1)
        values, axes = torch.linalg.eigh(spread)
        turned = (in_float64(vectors) - self.mean) @ axes
        found: torch.Tensor = turned * values.clamp(min=floor).rsqrt() @ axes.T
        return found
