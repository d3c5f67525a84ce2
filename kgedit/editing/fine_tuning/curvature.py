"""Curvature of the loss on a text in each direction of a matrix: Kronecker factors, and the projection based on them.

The Gauss-Newton matrix of a linear layer is approximated by A x B (K-FAC, arXiv 1503.05671), with A the second moment
of its inputs and B that of the loss's gradients at its outputs. In the basis of both eigenvectors, a direction's
curvature is the product of two eigenvalues; changes are projected out of the directions that account for most of the
sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from kgedit.editing.corpora import Corpus, TextBudget, pack
from kgedit.llm.devices import float64_device
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.saving import save_tensors
from kgedit.llm.surgery.gradient_factors import gradient_factors
from kgedit.llm.surgery.layers import mlp_matrices
from kgedit.llm.surgery.matrices import layer_device
from kgedit.llm.training import TargetBatch
from kgedit.progress import Advance, ignore
from kgedit.resources import home

_MOST_TOKENS = 1024
"""Maximum number of tokens of a batch: each has logits over the whole vocabulary, and a gradient."""

_IGNORED = -100  # label that torch's cross-entropy leaves out by default


@dataclass(frozen=True, slots=True)
class Curvature:
    """Kronecker factors of one matrix.

    Attributes:
        inputs: A = E[a a^T] over tokens, inputs x inputs, float64.
        outputs: B = E[g g^T] over tokens, outputs x outputs, float64; g is the gradient of the summed cross-entropy.
        tokens: Number of tokens averaged over.
    """

    inputs: torch.Tensor
    outputs: torch.Tensor
    tokens: int

    def merged(self, other: Curvature) -> Curvature:
        """Average two estimates, weighted by their numbers of tokens."""
        total = self.tokens + other.tokens
        share = other.tokens / total
        return Curvature(
            torch.lerp(self.inputs, other.inputs, share), torch.lerp(self.outputs, other.outputs, share), total
        )


class Projection:
    """Removes the directions with most of the curvature from a gradient or a change of one matrix.

    Args:
        curvature: Curvature of the matrix.
        share: The fewest directions that account for this share of the sum of all curvatures are removed.
        dtype: Number format of the projected tensors.

    Attributes:
        threshold: Lowest curvature of a removed direction; kept directions are below it.
        closed: Number of removed directions, out of outputs x inputs.
    """

    def __init__(self, curvature: Curvature, *, share: float, dtype: torch.dtype) -> None:
        values_in, vectors_in = torch.linalg.eigh(curvature.inputs)
        values_out, vectors_out = torch.linalg.eigh(curvature.outputs)
        product = values_out.clamp(min=0)[:, None] * values_in.clamp(min=0)
        falling = product.flatten().sort(descending=True).values
        sums = falling.cumsum(0)
        taken = int((sums < share * sums[-1]).sum())
        self.threshold = float(falling[min(taken, len(falling) - 1)])
        closed = product >= self.threshold
        self.closed = int(closed.sum())
        # Many eigenvectors of inputs are in no closed pair: subtracting the closed part is cheaper than keeping the
        # open one.
        rows, columns = closed.any(1), closed.any(0)
        self._closed = closed[rows][:, columns]
        self._inputs, self._outputs = vectors_in[:, columns].to(dtype), vectors_out[:, rows].to(dtype)

    def __call__(self, change: torch.Tensor) -> torch.Tensor:
        """Return the remaining part of a gradient or a change, outputs x inputs."""
        if self._closed.device != change.device:  # the factors are on another device if this one has no float64
            self._closed, self._inputs, self._outputs = (
                own.to(change.device) for own in (self._closed, self._inputs, self._outputs)
            )
        turned = (self._outputs.T @ (change @ self._inputs)) * self._closed
        left: torch.Tensor = change - (self._outputs @ turned) @ self._inputs.T
        return left


def text_curvatures(
    model: LanguageModel,
    layers: Sequence[int],
    corpus: Corpus,
    *,
    budget: TextBudget,
    progress: Advance,
) -> dict[int, Curvature]:
    """Load the factors of the down-projections of blocks over text from the home folder, or compute them.

    Args:
        model: Unedited model.
        layers: Lowest first.
        progress: Called with the number of finished tokens and of all tokens.

    Raises:
        ModelError: if the corpus contains no text.
    """
    paths = {layer: _path(model, layer, corpus, budget) for layer in layers}
    if missing := [layer for layer, path in paths.items() if not path.is_file()]:
        batches = text_batches(model, corpus, budget)
        for layer, found in curvatures(model, missing, batches, progress=progress).items():
            tensors = {"inputs": found.inputs.float(), "outputs": found.outputs.float()}
            save_tensors(paths[layer], tensors, {"tokens": str(found.tokens), "corpus": corpus.sha256})
    return {layer: _read(path, layer_device(model.blocks[layer].down_projection)) for layer, path in paths.items()}


def text_batches(model: LanguageModel, corpus: Corpus, budget: TextBudget) -> list[TargetBatch]:
    """Convert a text for `curvatures`: every token of a row except the first is a target.

    Raises:
        ModelError: if the corpus contains no text.
    """
    return [_row_targets(model, own) for own in _batches(pack(model, corpus, budget))]


def curvatures(
    model: LanguageModel,
    layers: Sequence[int],
    batches: Sequence[TargetBatch],
    *,
    progress: Advance = ignore,
) -> dict[int, Curvature]:
    """Compute the factors over all tokens that predict a target, with the loss summed over a row's targets.

    Args:
        layers: Lowest first.
    """
    matrices = mlp_matrices(model, layers, "down")
    inputs = [_square(matrix.linear.in_width, layer_device(matrix.module)) for matrix in matrices]
    outputs = [_square(matrix.linear.out_width, layer_device(matrix.module)) for matrix in matrices]
    tokens, total = 0, sum(int(targets.mask.sum()) - len(targets.mask) for targets in batches)
    for targets in batches:
        seen = targets.mask.bool()
        seen[:, -1] = False  # nothing is predicted after it
        counts = (targets.labels != _IGNORED).sum(1)[:, None, None]
        factors, _ = gradient_factors(model, matrices, targets)
        for index, found in enumerate(factors):
            # The factors are those of each row's mean loss.
            read, slopes = found.inputs[seen], (found.gradients * counts)[seen]
            inputs[index].add_((read.T @ read).to(inputs[index]))
            outputs[index].add_((slopes.T @ slopes).to(outputs[index]))
        tokens += int(seen.sum())
        progress(tokens, total)
    return {
        layer: Curvature(sum_in / tokens, sum_out / tokens, tokens)
        for layer, sum_in, sum_out in zip(layers, inputs, outputs, strict=True)
    }


def _square(width: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(width, width, dtype=torch.float64, device=float64_device(device))


def _batches(rows: Sequence[list[int]]) -> list[Sequence[list[int]]]:
    """Batch rows, without rows of one token, which have no target."""
    own = [row for row in rows if len(row) > 1]
    size = max(1, _MOST_TOKENS // max(map(len, own)))
    return [own[start : start + size] for start in range(0, len(own), size)]


def _row_targets(model: LanguageModel, rows: Sequence[list[int]]) -> TargetBatch:
    """Every token of a row except the first is a target."""
    ids, mask = model.pad_left(rows)
    predicted = mask[:, 1:].bool() & mask[:, :-1].bool()
    return TargetBatch(ids, mask, ids[:, 1:].masked_fill(~predicted, _IGNORED))


def _path(model: LanguageModel, layer: int, corpus: Corpus, budget: TextBudget) -> Path:
    dtype = str(model.module.dtype).removeprefix("torch.")
    name = f"curvature{layer:03d}-{corpus.sha256[:16]}-{budget.tokens}x{budget.length}-{dtype}.safetensors"
    return home() / "stats" / model.fingerprint / name


def _read(path: Path, device: torch.device) -> Curvature:
    with safe_open(path, framework="pt") as file:
        inputs, outputs = (file.get_tensor(name).to(float64_device(device)).double() for name in ("inputs", "outputs"))
        return Curvature(inputs, outputs, int(file.metadata()["tokens"]))
