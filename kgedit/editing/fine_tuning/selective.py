"""`bitfit` and `ln_tuning`: fine-tuning of the biases, or of the norms, of every block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kgedit.editing.editor import Capabilities
from kgedit.editing.fine_tuning.editor import BreadthFirstTuning, EpochSettings
from kgedit.editing.hparams.fine_tuning import BitFitSettings, GaLoreSettings, LnTuningSettings
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedParameter
from kgedit.llm.surgery.structure import is_linear, is_norm


class SelectiveTuning(BreadthFirstTuning[EpochSettings]):
    """Trains the parameters of `chosen`, in epochs over all edits of a call."""

    def __init__(
        self, model: LanguageModel, settings: EpochSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._trained = {f"{name}.{own}": EditedParameter(layer, own) for name, layer, own in self.chosen()}

    @property
    def trained(self) -> Mapping[str, EditedParameter]:
        """Trained parameters by their full names in the model."""
        return self._trained

    def chosen(self) -> Iterator[tuple[str, nn.Module, str]]:
        """Full name of the layer, layer, and "weight" or "bias" of trained parameters; by default linear weights."""
        return ((name, layer, "weight") for name, layer in self.layers_within() if is_linear(layer))

    def layers_within(self) -> Iterator[tuple[str, nn.Module]]:
        """Layers of the trained blocks by full name, and norms outside of blocks if all blocks are trained."""
        blocks = [block.module for block in self.model.blocks]
        inside = {module for layer in self.layers for module in blocks[layer].modules()}
        every = {module for block in blocks for module in block.modules()}
        whole = len(self.layers) == len(blocks)
        for name, module in self.model.module.named_modules():
            if module in inside or (whole and module not in every and is_norm(module)):
                yield name, module

    def details(self) -> dict[str, Any]:
        """Trained blocks, and the number of trained parameters."""
        count = sum(parameter.before.numel() for parameter in self._trained.values())
        return {**super().details(), "layers": list(self.layers), "trained_parameters": count}


class BitFit(SelectiveTuning[BitFitSettings]):
    """Trains only the biases of linear layers and norms.

    If no block has a bias (Llama, Mistral), every linear layer of the blocks gets one of zeros, which does not change
    answers until it is trained. `--save-model` then also writes a memory, because transformers does not support these
    biases.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="BitFit, arXiv 2106.10199",
    )
    settings_type = BitFitSettings

    def chosen(self) -> Iterator[tuple[str, nn.Module, str]]:
        """Biases.

        Raises:
            SpecError: if there are none and `add_biases` is false.
        """
        layers = list(self.layers_within())
        own = [(name, layer, "bias") for name, layer in layers if _has_bias(layer)]
        if own:
            return iter(own)
        if not self.settings.add_biases:
            raise SpecError(
                [
                    f"settings.add_biases: {self.model.name} has no biases for bitfit to train. Set it to true, or use "
                    "ln_tuning, which trains norms"
                ],
                of="The settings are wrong",
            )
        return ((name, layer, "bias") for name, layer in layers if is_linear(layer))

    @property
    def has_memory(self) -> bool:
        """Whether biases were added to the model."""
        return any(parameter.is_added for parameter in self.trained.values())

    def save_model(self, folder: Path) -> None:
        """Save the model without added biases, which its class does not support."""
        if not self.has_memory:
            super().save_model(folder)
            return
        state = self.state()
        self.restore()
        try:
            super().save_model(folder)
        finally:
            self.load_state(state)


class LnTuning(SelectiveTuning[LnTuningSettings]):
    """Trains only the weights and biases of norms, including the final one."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="LNFit, arXiv 2308.09610",
    )
    settings_type = LnTuningSettings

    def chosen(self) -> Iterator[tuple[str, nn.Module, str]]:
        """Norms."""
        for name, layer in self.layers_within():
            if is_norm(layer):
                yield from ((name, layer, own) for own in ("weight", "bias") if getattr(layer, own, None) is not None)


def _has_bias(layer: nn.Module) -> bool:
    return (is_linear(layer) or is_norm(layer)) and getattr(layer, "bias", None) is not None


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


_OVERSAMPLING, _ITERATIONS = 4, 4
"""Columns per singular vector that are iterated, and how often. On gradients of SmolLM2 this finds the vectors of an
exact decomposition up to rounding (1 - cosine of at most 1e-6) and takes a thirteenth of its time."""


def singular_vectors(gradient: torch.Tensor, rank: int) -> torch.Tensor:
    """First `rank` singular vectors of a matrix on its shorter side (the left ones of a square matrix), as columns.

    A full decomposition of every matrix of an 8B model takes minutes on a GPU. Where the rank is far below the shorter
    side, they are found by subspace iteration from fixed random columns (Halko et al. 2011, algorithm 4.4).
    """
    rows, columns = gradient.shape
    wide = gradient.float() if rows <= columns else gradient.float().T
    width = rank * _OVERSAMPLING
    if width >= len(wide):
        left: torch.Tensor = torch.linalg.svd(wide, full_matrices=False).U
        return left[:, :rank].contiguous()
    # Drawn on the CPU, so that every device begins with the same columns.
    drawn = torch.randn((wide.shape[1], width), generator=torch.Generator().manual_seed(0)).to(wide.device)
    basis = torch.linalg.qr(wide @ drawn).Q
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(wide @ (wide.T @ basis)).Q
    within = torch.linalg.svd(basis.T @ wide, full_matrices=False).U
    found: torch.Tensor = (basis @ within[:, :rank]).contiguous()
    return found


def projected(gradient: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    """Coordinates of a matrix in a basis of its shorter side."""
    rows, columns = gradient.shape
    return basis.T @ gradient if rows <= columns else gradient @ basis


def lifted(low: torch.Tensor, basis: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Matrix of a given shape with these coordinates, and no component outside of the basis."""
    rows, columns = shape
    return basis @ low if rows <= columns else low @ basis.T
