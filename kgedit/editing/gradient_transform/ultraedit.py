"""`ultraedit`: one backward pass for a batch of edits, then a closed-form update of several MLP matrices (UltraEdit).

Nothing is optimised: keys are the inputs of the matrices at the tokens that predict the answer, values are output
gradients; both are z-scored with running statistics over all edits so far, which keeps later edits of a long sequence
comparable. Matrices of the same shape share them.

`stableedit` also whitens the gradients and warms up on other edits, for long sequences (StableEdit).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, Editor, EditorState, RunContext
from kgedit.editing.gradient_transform.running_statistics import RunningCovariance, RunningStatistics
from kgedit.editing.hparams.gradient_transform import StableEditSettings, UltraEditSettings
from kgedit.editing.training import examples
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.devices import float64_device, in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.forward_above import gradient_factors
from kgedit.llm.surgery.layers import choose_matrices
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.llm.training import TargetBatch, encode_targets
from kgedit.progress import Advance
from kgedit.records.cases import Case, KnownFact


class UltraEdit(Editor[UltraEditSettings]):
    """Updates several MLP matrices in closed form from normalised inputs and gradients.

    Solves W' = W + (H'H + I)^-1 H'V per matrix, with V = -rate * |z(h)|^2 * z(g) for key h and output gradient g.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="UltraEdit, arXiv 2505.14679 section 3",
    )
    settings_type = UltraEditSettings

    def __init__(
        self, model: LanguageModel, settings: UltraEditSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.matrices = choose_matrices(model, settings.layers, settings.matrices)
        self.layers = sorted({matrix.block for matrix in self.matrices})
        self._edited = {matrix.name: EditedMatrix(matrix.module) for matrix in self.matrices}
        self._shapes = {matrix.name: "x".join(map(str, matrix.shape)) for matrix in self.matrices}
        self._start: dict[str, RunningStatistics] = {}
        self._running: dict[str, RunningStatistics] = {}

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Warm up the statistics, if set."""
        facts = known[: self.settings.warm_up]
        for done in range(0, len(facts), self.settings.batch):
            advance(done, len(facts))
            batch = facts[done : done + self.settings.batch]
            pairs = [(context.prompt(fact.question), fact.answer) for fact in batch for context in self.contexts]
            self._observe(encode_targets(self.model, pairs, learn_end=self.settings.learn_end))
        self._start = {shape: _copy(running) for shape, running in self._running.items()}

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Edit in batches; the loss is that of the last batch before its update."""
        loss = 0.0
        for done in range(0, len(cases), self.settings.batch):
            run.progress(done / len(cases))
            pairs = examples(cases[done : done + self.settings.batch], self.contexts)
            keys, loss = self._observe(encode_targets(self.model, pairs, learn_end=self.settings.learn_end))
            for name, (inputs, gradients) in keys.items():
                self._edited[name].add(self._update(name, inputs, gradients))
        return AppliedEdits(loss=loss)

    def _update(self, name: str, inputs: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        """Return the change of one matrix, inputs x outputs."""
        running = self._running[self._shapes[name]]
        return update_of(inputs, gradients, running, learning_rate=self.settings.learning_rate)

    def details(self) -> dict[str, Any]:
        """Edited blocks and matrices."""
        return {"layers": list(self.layers), "matrices": [matrix.name for matrix in self.matrices]}

    def restore(self) -> None:
        """Restore the model's own matrices, and the statistics from before the first edit."""
        for edited in self._edited.values():
            edited.restore()
        self._running = {shape: _copy(running) for shape, running in self._start.items()}

    def state(self) -> EditorState:
        """Return matrices and statistics."""
        tensors = {f"{name}.weight": edited.weight.detach().float().clone() for name, edited in self._edited.items()}
        for shape, running in self._running.items():
            tensors |= {f"{shape}.mean": running.mean.clone(), f"{shape}.squares": running.squares.clone()}
        return EditorState(tensors, {"counts": {shape: running.count for shape, running in self._running.items()}})

    def load_state(self, state: EditorState) -> None:
        """Load matrices and statistics.

        Raises:
            SpecError: if the state has separate statistics for each matrix, as in earlier versions.
        """
        counts = state.record["counts"]
        if not set(counts) <= set(self._shapes.values()):
            raise SpecError(["an earlier version began this run with other statistics: give --overwrite"])
        for name, edited in self._edited.items():
            edited.write(state.tensors[f"{name}.weight"])
        device = float64_device(self.model.device)
        self._running = {
            shape: RunningStatistics(
                count, state.tensors[f"{shape}.mean"].to(device), state.tensors[f"{shape}.squares"].to(device)
            )
            for shape, count in counts.items()
        }

    def _observe(self, targets: TargetBatch) -> tuple[dict[str, tuple[torch.Tensor, torch.Tensor]], float]:
        """Inputs and output gradients of each matrix at tokens that predict answers; added to the statistics."""
        factors, loss = gradient_factors(self.model, self.matrices, targets)
        found = {}
        for matrix, factor in zip(self.matrices, factors, strict=True):
            inputs, gradients = factor.inputs[targets.predicting], factor.gradients[targets.predicting]
            both = torch.cat([inputs, gradients], dim=1)
            empty = RunningStatistics.empty(both.shape[1], both.device)
            self._running.setdefault(self._shapes[matrix.name], empty).add(both)
            found[matrix.name] = inputs, gradients
        return found, loss


def update_of(
    inputs: torch.Tensor, gradients: torch.Tensor, running: RunningStatistics, *, learning_rate: float
) -> torch.Tensor:
    """Compute the closed-form update of one matrix, in float64.

    Args:
        inputs: H, vectors x inputs.
        gradients: vectors x outputs.
        running: Statistics over concatenated inputs and gradients.

    Returns:
        inputs x outputs.
    """
    scores = running.normalize(torch.cat([inputs, gradients], dim=1))
    keys, slopes = scores[:, : inputs.shape[1]], scores[:, inputs.shape[1] :]
    return closed_form(inputs, keys, slopes, learning_rate=learning_rate)


def closed_form(
    inputs: torch.Tensor, keys: torch.Tensor, slopes: torch.Tensor, *, learning_rate: float, penalty: float = 1.0
) -> torch.Tensor:
    """(H'H + penalty I)^-1 H'V with V = -rate |k|^2 g, in float64, computed as H'(HH' + penalty I)^-1 V.

    Args:
        inputs: H, vectors x inputs.
        keys: k, the normalised inputs, float64.
        slopes: g, normalised gradients, vectors x outputs, float64.

    Returns:
        inputs x outputs.
    """
    values = -learning_rate * keys.square().sum(1, keepdim=True) * slopes
    read = in_float64(inputs)
    # Vectors x vectors rather than inputs x inputs: a batch has far fewer vectors than a matrix has inputs.
    gram = read @ read.T
    gram.diagonal().add_(penalty)
    update: torch.Tensor = read.T @ torch.linalg.solve(gram, values)
    return update


def _copy(running: RunningStatistics) -> RunningStatistics:
    return RunningStatistics(running.count, running.mean.clone(), running.squares.clone())


class StableEdit(UltraEdit):
    """Updates several MLP matrices in closed form from normalised inputs and whitened gradients.

    Solves W' = W + (H'H + penalty I)^-1 H'V per matrix, with V = -rate * |z(h)|^2 * w(g) for key h and output gradient
    g; w whitens by the covariance of all gradients so far, or uses z-scores until there are enough of them. Before the
    first edit, known facts are edited in, so that the statistics are stable.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="StableEdit, arXiv 2605.11836; UltraEdit, arXiv 2505.14679 section 3",
    )
    settings_type = StableEditSettings
    settings: StableEditSettings

    def __init__(
        self, model: LanguageModel, settings: StableEditSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._covariances: dict[str, RunningCovariance] = {}
        self._start_covariances: dict[str, RunningCovariance] = {}
        self._warmed: dict[str, torch.Tensor] = {}
        self._whitens = self._begun = False

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Edit known facts in, store weights and statistics, and restore the model."""
        facts, size = known[: self.settings.warm_up], self.settings.batch
        for done in range(0, len(facts), size):
            advance(done, len(facts))
            pairs = [
                (context.prompt(fact.question), fact.answer)
                for fact in facts[done : done + size]
                for context in self.contexts
            ]
            keys, _ = self._observe(encode_targets(self.model, pairs, learn_end=self.settings.learn_end))
            for name, (inputs, gradients) in keys.items():
                self._edited[name].add(self._update(name, inputs, gradients))
        if facts:
            self._warmed = {name: edited.weight.detach().clone() for name, edited in self._edited.items()}
        self._whitens = True
        self._start = dict(self._running)
        self._start_covariances = {shape: own.copy() for shape, own in self._covariances.items()}
        self.restore()

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """As in UltraEdit; the first call starts from the weights after the warm-up."""
        if not self._begun:
            for name, weight in self._warmed.items():
                self._edited[name].write(weight)
        self._begun, self._whitens = True, True
        return super().apply(cases, run)

    def restore(self) -> None:
        """Restore the model's own matrices, and the statistics from before the first edit."""
        super().restore()
        self._covariances = {shape: own.copy() for shape, own in self._start_covariances.items()}
        self._begun = False

    def state(self) -> EditorState:
        """Also returns the covariances."""
        state = super().state()
        tensors = {f"{shape}.scatter": own.scatter.clone() for shape, own in self._covariances.items()}
        return EditorState({**state.tensors, **tensors}, {**state.record, "begun": self._begun})

    def load_state(self, state: EditorState) -> None:
        """Also loads the covariances."""
        super().load_state(state)
        self._begun = state.record["begun"]
        for shape, running in self._running.items():
            scatter = state.tensors[f"{shape}.scatter"].to(float64_device(self.model.device))
            mean = running.mean[-len(scatter) :].clone()  # inputs come first
            self._covariances[shape] = RunningCovariance(running.count, mean, scatter)

    def _update(self, name: str, inputs: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        shape = self._shapes[name]
        scores = self._running[shape].normalize(torch.cat([inputs, gradients], dim=1))
        keys, slopes = scores[:, : inputs.shape[1]], scores[:, inputs.shape[1] :]
        covariance = self._covariances[shape]
        if self._whitens and covariance.can_whiten:
            slopes = covariance.whiten(gradients, floor=self.settings.floor)
        rate, penalty = self.settings.learning_rate, self.settings.penalty
        return closed_form(inputs, keys, slopes, learning_rate=rate, penalty=penalty)

    def _observe(self, targets: TargetBatch) -> tuple[dict[str, tuple[torch.Tensor, torch.Tensor]], float]:
        found, loss = super()._observe(targets)
        for name, (_, gradients) in found.items():
            empty = RunningCovariance.empty(gradients.shape[1], gradients.device)
            self._covariances.setdefault(self._shapes[name], empty).add(gradients)
        return found, loss
