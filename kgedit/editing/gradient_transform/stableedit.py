"""`stableedit`: UltraEdit with whitened gradients and a warm-up on other edits, for long sequences (StableEdit)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kgedit.editing.editor import NO_RUN, Advance, AppliedEdits, Capabilities, EditorState, RunContext
from kgedit.editing.gradient_transform import deviations
from kgedit.editing.gradient_transform.running_statistics import RunningCovariance
from kgedit.editing.gradient_transform.ultraedit import UltraEdit, closed_form
from kgedit.hparams.gradient_transform import StableEditSettings
from kgedit.llm.contexts import Context
from kgedit.llm.devices import float64_device
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import TargetBatch, encode_targets
from kgedit.records.cases import Case, KnownFact


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
    deviations = deviations.STABLEEDIT
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
