"""Statistics of a model's down-projections: the second moment C = E[k k^T] of their inputs over text.

C is computed from any text by a forward pass that ends above the highest layer needed, and stored in the home folder by
model, layer, text, number of tokens and number format. ROME's metric are coordinates in which C is the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from kgedit.editing.corpora import Corpus, TextBudget, pack
from kgedit.editing.locate_then_edit.subject_prompts import run_through
from kgedit.errors import SpecError
from kgedit.llm.devices import in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors
from kgedit.llm.surgery.matrices import layer_device
from kgedit.llm.surgery.structure import by_row, hooks
from kgedit.progress import Advance, ignore
from kgedit.resources import home


@dataclass(frozen=True, slots=True)
class SecondMoment:
    """Statistics of one layer, in a file: at width 14,336 they take 1.6 GB, and methods need them only once.

    Attributes:
        layer: Index of the block.
        tokens: Number of tokens that C is averaged over.
        path: File with C.
        device: Device to which C is loaded.
    """

    layer: int
    tokens: int
    path: Path
    device: torch.device

    @property
    def matrix(self) -> torch.Tensor:
        """C, inner width x inner width, float64, read from the file at each call."""
        with safe_open(self.path, framework="pt") as file:
            found: torch.Tensor = file.get_tensor("second_moment").to(self.device)
        return found

    @property
    def tokens_per_dimension(self) -> float:
        """Number of tokens per dimension, a measure of the reliability of C."""
        return self.tokens / len(self.matrix)


def second_moments(
    model: LanguageModel,
    layers: Sequence[int],
    corpus: Corpus,
    *,
    budget: TextBudget | None = None,
    progress: Advance | None = None,
) -> dict[int, SecondMoment]:
    """Load C of each of `layers` from the home folder, or compute it; the model must be unedited.

    Raises:
        ModelError: if the corpus contains no text.
    """
    wanted = budget or TextBudget()
    paths = {layer: _path(model, layer, corpus, wanted) for layer in layers}
    missing = [layer for layer, path in paths.items() if not path.is_file()]
    if missing:
        rows = pack(model, corpus, wanted)
        for layer, (matrix, tokens) in accumulate(model, missing, rows, progress=progress).items():
            per_dimension = {"width": len(matrix), "tokens_per_dimension": round(tokens / len(matrix), 2)}
            own = {"layer": layer, "tokens": tokens, **per_dimension, **_record(model, corpus, wanted)}
            _write(paths[layer], matrix, own)
    return {layer: _read(layer, paths[layer], model) for layer in layers}


def accumulate(
    model: LanguageModel, layers: Sequence[int], rows: Sequence[Sequence[int]], *, progress: Advance | None = None
) -> dict[int, tuple[torch.Tensor, int]]:
    """Compute C and the number of tokens for each layer, without padding.

    Products are computed in the model's format (float32 at least) and summed over batches in float64.
    """
    report = progress or ignore
    sums: dict[int, torch.Tensor] = {}
    total, done = sum(map(len, rows)), 0

    def add(layer: int, mask: torch.Tensor) -> Any:
        def hook(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            seen = by_row(inputs[0].detach(), len(mask))[mask.to(inputs[0].device).bool()]
            # A sum of squares in 16 bits overflows (float16 ends at 65,504) or loses its small terms (bfloat16 has 8
            # bits).
            wide = seen.to(torch.promote_types(seen.dtype, torch.float32))
            own = in_float64(wide.T @ wide)
            sums[layer] = sums[layer] + own if layer in sums else own

        return hook

    # About 2,048 tokens a batch: activations of all blocks up to the highest layer are in memory for them.
    size = max(1, 2048 // max(map(len, rows)))
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        ids, mask = model.pad_left(batch)
        handles = [model.blocks[layer].down_projection.register_forward_pre_hook(add(layer, mask)) for layer in layers]
        with hooks(*handles):
            run_through(model, ids, mask, layer=max(layers))
        done += sum(map(len, batch))
        report(done, total)
    return {layer: (matrix / total, total) for layer, matrix in sums.items()}


def eigen(moment: SecondMoment) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues of C in ascending order, and its eigenvectors as columns; cached next to C."""
    path = moment.path.with_name(f"{moment.path.stem}-eigen.safetensors")
    if not path.is_file():
        values, vectors = torch.linalg.eigh(moment.matrix)
        save_tensors(path, {"values": values, "vectors": vectors})
    with safe_open(path, framework="pt") as file:
        values, vectors = (file.get_tensor(name).to(moment.device) for name in ("values", "vectors"))
    return values, vectors


def condition_number(moment: SecondMoment) -> float:
    """Largest eigenvalue of C divided by the smallest; infinite if C is singular."""
    values = eigen(moment)[0].clamp(min=0)
    return float(values[-1] / values[0]) if values[0] > 0 else float("inf")


def null_space(moment: SecondMoment, *, threshold: float, relative: bool) -> torch.Tensor:
    """Orthonormal basis (columns) of the directions that text hardly uses.

    Args:
        threshold: Relative: the kept directions together account for at most this share of C's trace. Absolute: each
            has an eigenvalue below it (2e-2 as published for AlphaEdit, for models whose keys are small).
    """
    values, vectors = eigen(moment)
    values = values.clamp(min=0)
    kept = values.cumsum(0) <= threshold * values.sum() if relative else values < threshold
    return vectors[:, : int(kept.sum())].contiguous()


def _record(model: LanguageModel, corpus: Corpus, budget: TextBudget) -> dict[str, object]:
    return {
        "model": model.fingerprint,
        "corpus": corpus.sha256,
        "most_tokens": budget.tokens,
        "length": budget.length,
        "dtype": str(model.module.dtype).removeprefix("torch."),
    }


def _path(model: LanguageModel, layer: int, corpus: Corpus, budget: TextBudget) -> Path:
    record = _record(model, corpus, budget)
    name = f"layer{layer:03d}-{corpus.sha256[:16]}-{budget.tokens}x{budget.length}-{record['dtype']}.safetensors"
    return home() / "stats" / model.fingerprint / name


def _write(path: Path, matrix: torch.Tensor, record: dict[str, object]) -> None:
    save_tensors(path, {"second_moment": matrix}, {key: str(value) for key, value in record.items()})


def _read(layer: int, path: Path, model: LanguageModel) -> SecondMoment:
    with safe_open(path, framework="pt") as file:
        tokens = int(file.metadata()["tokens"])
    return SecondMoment(layer, tokens, path, layer_device(model.blocks[layer].down_projection))


@dataclass(frozen=True, slots=True)
class Whitening:
    """Coordinates in which a second moment C = L L^T is the identity.

    Attributes:
        factor: L, lower triangular.
    """

    factor: torch.Tensor

    @classmethod
    def of(cls, moment: torch.Tensor, *, damping: float) -> Whitening:
        """Create from C plus `damping` times its mean eigenvalue, because C is singular if computed from few tokens.

        Raises:
            SpecError: if the sum is singular.
        """
        return cls(lower_factor(damped(moment, damping)))

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


def lower_factor(matrix: torch.Tensor) -> torch.Tensor:
    """The lower triangular L with L L^T equal to a second moment, or a penalty made of it.

    Raises:
        SpecError: if the matrix is not positive definite.
    """
    try:
        found: torch.Tensor = torch.linalg.cholesky(matrix)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise SpecError(
            [
                f"settings.damping: the statistics of a layer's {len(matrix)} inputs are singular; raise "
                "settings.damping (1e-4 by default) or settings.tokens"
            ],
            of="The settings are wrong",
        ) from error
    return found
