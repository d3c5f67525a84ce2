"""`galore`: fine-tuning of all linear layers with gradients projected onto a few of their singular vectors (GaLore)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning.selective import SelectiveTuning
from kgedit.hparams.fine_tuning import GaLoreSettings

_BETAS, _EPSILON = (0.9, 0.999), 1e-8
"""Adam's constants, as in the paper's algorithm 2."""


class GaLore(SelectiveTuning[GaLoreSettings]):
    """Trains every linear layer of the blocks, with Adam in a subspace of each gradient.

    The subspace is spanned by the gradient's first `rank` singular vectors on its shorter side, recomputed every
    `refresh` steps; Adam's moments have `rank` rows or columns, and the step is projected back.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="GaLore, arXiv 2403.03507 section 4",
    )
    settings_type = GaLoreSettings

    def _optimizer(self, weights: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
        own = self.settings
        return ProjectedAdam(weights, lr=own.learning_rate * own.scale, rank=own.rank, refresh=own.refresh)


class ProjectedAdam(torch.optim.Optimizer):
    """Adam in a subspace of each gradient.

    Args:
        weights: Matrices to train.
        lr: Learning rate, times the paper's alpha.
        rank: Dimension of the subspace, at most that of the shorter side.
        refresh: Number of steps after which the subspace is recomputed.
    """

    def __init__(self, weights: Iterable[torch.nn.Parameter], *, lr: float, rank: int, refresh: int) -> None:
        super().__init__(weights, {"lr": lr, "rank": rank, "refresh": refresh})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step with the current gradients."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step_of(weight, group)
        return loss

    def _step_of(self, weight: torch.nn.Parameter, group: dict[str, Any]) -> None:
        gradient, state = weight.grad, self.state[weight]
        assert gradient is not None
        steps = int(state.get("step", torch.zeros(())))
        if steps % group["refresh"] == 0:
            state["basis"] = singular_vectors(gradient, group["rank"])
        low = projected(gradient, state["basis"])
        for name in ("mean", "square"):
            state.setdefault(name, torch.zeros_like(low))
        state["step"] = torch.tensor(float(steps + 1))
        first, second = _BETAS
        state["mean"].lerp_(low, 1 - first)
        state["square"].mul_(second).addcmul_(low, low, value=1 - second)
        mean = state["mean"] / (1 - first ** (steps + 1))
        root = (state["square"] / (1 - second ** (steps + 1))).sqrt()
        weight.sub_(lifted(mean / (root + _EPSILON), state["basis"], weight.shape), alpha=group["lr"])


def singular_vectors(gradient: torch.Tensor, rank: int) -> torch.Tensor:
    """First `rank` singular vectors of a matrix on its shorter side (the left ones of a square matrix), as columns."""
    left, _, right = torch.linalg.svd(gradient.float(), full_matrices=False)
    rows, columns = gradient.shape
    basis: torch.Tensor = (left if rows <= columns else right.T)[:, :rank].contiguous()
    return basis


def projected(gradient: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Coordinates of a matrix in a basis of its shorter side."""
    rows, columns = gradient.shape
    return basis.T @ gradient if rows <= columns else gradient @ basis


def lifted(low: torch.Tensor, basis: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Matrix of a given shape with these coordinates, and no component outside of the basis."""
    rows, columns = shape
    return basis @ low if rows <= columns else low @ basis.T
