"""`crispedit`: LocFT-BF without changes in the directions that the loss on a text depends on (CrispEdit).

The loss on text then changes only to second order, while edits still follow the rest of their gradient.

The Gauss-Newton matrix of a linear layer is approximated by A x B (K-FAC, arXiv 1503.05671), with A the second moment
of its inputs and B that of the loss's gradients at its outputs. In the basis of both eigenvectors, a direction's
curvature is the product of two eigenvalues; changes are projected out of the directions that account for most of the
sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from kgedit.editing.corpora import Corpus, TextBudget, corpus_of, pack
from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, EditorState, RunContext
from kgedit.editing.fine_tuning.editor import BreadthFirstTuning, MatrixTuning
from kgedit.editing.hparams.fine_tuning import CrispEditSettings
from kgedit.editing.training import examples
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.devices import float64_device
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.model_files import save_tensors
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.surgery.layers import mlp_matrices
from kgedit.llm.surgery.matrices import layer_device
from kgedit.llm.training import TargetBatch, encode_targets
from kgedit.progress import Advance, ignore
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home

_MERGED_AT_ONCE = 16
"""Number of past edits in one batch when their curvature is computed."""


class CrispEdit(BreadthFirstTuning[CrispEditSettings], MatrixTuning[CrispEditSettings]):
    """Trains several MLP matrices breadth first, with gradients projected out of directions that text depends on.

    The curvature of each matrix is computed over text as two Kronecker factors (K-FAC). Directions are pairs of their
    eigenvectors; those that account for `share` of the curvature are closed. After each `chunk` of edits, the curvature
    of these edits is added.

    As in the paper, Adam normalises element by element, so its steps leave the open directions slightly, and if nearly
    all of a gradient is closed it turns the remaining rounding errors into full steps; `project: step` also projects
    each step.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="CrispEdit, arXiv 2602.15823; the trainer is LocFT-BF, arXiv 2509.22072",
    )
    settings_type = CrispEditSettings

    def __init__(
        self, model: LanguageModel, settings: CrispEditSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._corpus: Corpus | None = None
        self._unedited: dict[int, Curvature] = {}
        self._of_text: dict[int, Curvature] = {}
        self._of_edits: dict[int, Curvature] = {}
        self._taken_at: dict[int, torch.Tensor] = {}  # matrices when the curvature of the text was recomputed
        self._projections: dict[int, Projection] = {}
        self._past: list[tuple[str, str]] = []  # edits whose curvature is not included yet

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Load or compute the curvature over text, on the unedited model."""
        if self.settings.project == "none":
            return
        self._corpus = corpus_of(self.settings.corpus, known)
        self._unedited = text_curvatures(self.model, self.layers, self._corpus, budget=self._budget, progress=advance)
        self._of_text = self._unedited

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train on the cases; first, the curvature of past edits is added if there are enough of them."""
        self._take_anew()
        self._join_past()
        applied = super().apply(cases, run)
        if self.settings.history and self.settings.project != "none":
            self._past += examples(cases, self.contexts)
        return applied

    def details(self) -> dict[str, Any]:
        """Layers, and the text of the curvature."""
        text = None
        if self._corpus is not None:
            tokens = self._unedited[self.layers[0]].tokens
            text = {"corpus": self._corpus.name, "sha256": self._corpus.sha256, "tokens": tokens}
        return {**super().details(), "layers": list(self.layers), "curvature": text}

    def projection(self, layer: int) -> Projection:
        """Projection of a layer's changes onto the open directions.

        Raises:
            SpecError: if `prepare` was not called.
        """
        if layer not in self._of_text:
            raise SpecError(
                ["crispedit needs the curvature of text: call prepare() with known facts first"],
                of="The method is not prepared",
            )
        if layer not in self._projections:
            wide, own = self._matrices[layer].wide, self._of_text[layer]
            whole = own.merged(self._of_edits[layer]) if self._of_edits else own
            self._projections[layer] = Projection(whole, share=self.settings.share, dtype=wide)
        return self._projections[layer]

    def restore(self) -> None:
        """Restore the matrices, and the curvature of the text only."""
        super().restore()
        if self._of_edits or self._taken_at:
            self._projections = {}
        self._past, self._of_edits, self._of_text, self._taken_at = [], {}, self._unedited, {}

    def state(self) -> EditorState:
        """Return the matrices, the curvature if it is not that of the text alone, and edits not yet included in it."""
        tensors, tokens = super().state().tensors, dict[str, dict[str, int]]()
        for kind, held in self._changed().items():
            tokens[kind] = {str(layer): own.tokens for layer, own in held.items()}
            for layer, own in held.items():
                tensors |= {
                    f"{kind}.inputs.{layer}": own.inputs.clone(),
                    f"{kind}.outputs.{layer}": own.outputs.clone(),
                }
        tensors |= {f"taken_at.{layer}": matrix.clone() for layer, matrix in self._taken_at.items()}
        return EditorState(tensors, {"past": [list(pair) for pair in self._past], "tokens": tokens})

    def load_state(self, state: EditorState) -> None:
        """Load the result of `state`."""
        super().load_state(state)
        self._past = [(prompt, answer) for prompt, answer in state.record["past"]]
        self._projections = {}
        held = {kind: self._read(kind, tokens, state) for kind, tokens in state.record["tokens"].items()}
        self._of_edits, self._of_text = held.get("edits", {}), held.get("text", self._unedited)
        self._taken_at = {
            layer: state.tensors[f"taken_at.{layer}"].to(self._matrices[layer].weight.device)
            for layer in held.get("text", {})
        }

    @property
    def _budget(self) -> TextBudget:
        return TextBudget(self.settings.tokens, self.settings.length)

    def _changed(self) -> dict[str, dict[int, Curvature]]:
        held = {"edits": self._of_edits, "text": self._of_text if self._taken_at else {}}
        return {kind: own for kind, own in held.items() if own}

    def _read(self, kind: str, tokens: Mapping[str, int], state: EditorState) -> dict[int, Curvature]:
        found = {}
        for name, count in tokens.items():
            device = self._matrices[int(name)].weight.device
            inputs, outputs = (state.tensors[f"{kind}.{side}.{name}"].to(device) for side in ("inputs", "outputs"))
            found[int(name)] = Curvature(inputs, outputs, count)
        return found

    def _take_anew(self) -> None:
        """Recompute the curvature of the text on the edited model if a matrix has changed much since the last time."""
        limit = self.settings.moved
        if limit is None or self._corpus is None:
            return
        starts = {layer: self._taken_at.get(layer, matrix.before) for layer, matrix in self._matrices.items()}
        if all(
            (matrix.weight.detach() - starts[layer]).norm() <= limit * starts[layer].norm()
            for layer, matrix in self._matrices.items()
        ):
            return
        self._of_text = curvatures(self.model, self.layers, text_batches(self.model, self._corpus, self._budget))
        self._taken_at = {layer: matrix.weight.detach().clone() for layer, matrix in self._matrices.items()}
        self._projections = {}

    def _join_past(self) -> None:
        if len(self._past) < self.settings.chunk * len(self.contexts):
            return
        batches = [
            encode_targets(self.model, self._past[start : start + _MERGED_AT_ONCE], learn_end=self.settings.learn_end)
            for start in range(0, len(self._past), _MERGED_AT_ONCE)
        ]
        found = curvatures(self.model, self.layers, batches)
        earlier = self._of_edits
        self._of_edits = {layer: earlier[layer].merged(own) if earlier else own for layer, own in found.items()}
        self._projections, self._past = {}, []

    @contextmanager
    def _training(self) -> Iterator[torch.optim.Optimizer]:
        """Optimizer whose gradients, and whole steps if set, are projected out of the closed directions."""
        own = [] if self.settings.project == "none" else [self.projection(layer) for layer in self.layers]
        with super()._training() as optimizer:
            weights = [matrix.weight for matrix in self._matrices.values()]
            before: list[torch.Tensor] = []

            def project_gradients(*_: Any) -> None:
                before[:] = [weight.detach().clone() for weight in weights]
                for weight, projection in zip(weights, own, strict=True):
                    weight.grad = self._projected(weight.grad, projection)

            def project_step(*_: Any) -> None:
                with torch.no_grad():
                    for weight, start, projection in zip(weights, before, own, strict=True):
                        weight.copy_(start + self._projected(weight - start, projection))

            if own:
                optimizer.register_step_pre_hook(project_gradients)
            if self.settings.project == "step":
                # Adam normalises element by element, which leaves the open directions.
                optimizer.register_step_post_hook(project_step)
            yield optimizer

    def _projected(self, change: torch.Tensor | None, projection: Projection) -> torch.Tensor:
        """Project a gradient or a change in the layout of the layer's weight."""
        assert change is not None
        stored_by_inputs = self.model.blocks[self.layers[0]].down.rows_are_inputs
        return projection(change.T).T if stored_by_inputs else projection(change)


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
