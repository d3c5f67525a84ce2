"""`ewc` and `si`: fine-tuning of all linear layers that preserves parameters important for earlier calls.

Both add a quadratic penalty on the distance of each parameter from an anchor, weighted by its importance for earlier
calls. They differ in how importance is measured and where the anchor is. The first call has no penalty.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from kgedit.editing.editor import NO_RUN, AppliedEdits, Capabilities, EditorState, RunContext
from kgedit.editing.fine_tuning.selective import SelectiveTuning
from kgedit.editing.hparams.fine_tuning import ContinualSettings, EwcSettings, SynapticSettings
from kgedit.editing.training import examples, fusible, seed_for
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.training import backward, encode_targets
from kgedit.records.cases import Case

PenaltySettings = TypeVar("PenaltySettings", bound=ContinualSettings)


class ConsolidatedTuning(SelectiveTuning[PenaltySettings]):
    """Trains with a penalty: each gradient step adds slope x importance x (parameter - anchor)."""

    def __init__(
        self, model: LanguageModel, settings: PenaltySettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self.importance: dict[str, torch.Tensor] = {}
        self.anchor: dict[str, torch.Tensor] = {}

    @property
    @abstractmethod
    def slope(self) -> float:
        """Factor of the penalty's gradient."""

    def watch(self, optimizer: torch.optim.Optimizer) -> None:
        """Register hooks that need the gradient without the penalty; hooks run in the order of registration."""

    def restore(self) -> None:
        """Restore the model's own matrices, and clear importance and anchors."""
        super().restore()
        self.importance, self.anchor = {}, {}

    def state(self) -> EditorState:
        """Return the matrices, and importance and anchor of each parameter."""
        tensors = super().state().tensors
        for kind, own in (("importance", self.importance), ("anchor", self.anchor)):
            tensors |= {f"{kind}.{name}": tensor.clone() for name, tensor in own.items()}
        return EditorState(tensors)

    def load_state(self, state: EditorState) -> None:
        """Load the result of `state`."""
        super().load_state(state)
        self.importance, self.anchor = self._of(state, "importance"), self._of(state, "anchor")

    def _of(self, state: EditorState, kind: str) -> dict[str, torch.Tensor]:
        keys = {name: f"{kind}.{name}" for name in self.trained}
        devices = {name: own.value.device for name, own in self.trained.items()}
        return {name: state.tensors[key].to(devices[name]) for name, key in keys.items() if key in state.tensors}

    def _optimizer(self, weights: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
        # A fused Adam divides gradients by the loss scale itself, after the hook that adds the penalty.
        fused = fusible(weights) and not self._scaler.is_enabled()
        return torch.optim.Adam(weights, lr=self.settings.learning_rate, fused=fused)

    @contextmanager
    def _training(self) -> Iterator[torch.optim.Optimizer]:
        """As in the base class, with the penalty's gradient added before each step."""
        with super()._training() as optimizer:

            def add_penalty(*_: Any) -> None:
                for name, parameter in self.trained.items():
                    if name in self.importance and parameter.value.grad is not None:
                        distance = parameter.value.detach() - self.anchor[name]
                        parameter.value.grad.addcmul_(self.importance[name], distance, value=self.slope)

            self.watch(optimizer)
            if self.importance and self.slope:
                optimizer.register_step_pre_hook(add_penalty)
            yield optimizer


class ElasticWeights(ConsolidatedTuning[EwcSettings]):
    """Trains every linear layer of the blocks with the penalty of elastic weight consolidation.

    After each call the diagonal of the Fisher information is computed on its edits. The penalty is the sum over earlier
    calls of lambda / 2 x F x (parameter - parameter after the call)^2, kept as one quadratic function.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="EWC, arXiv 1612.00796 section 2.1",
    )
    settings_type = EwcSettings

    @property
    def slope(self) -> float:
        """Lambda, from the derivative of lambda / 2 x F x d^2."""
        return self.settings.penalty

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Train on the cases, then add their Fisher information to the importance."""
        applied = super().apply(cases, run)
        if self.settings.penalty:
            self._consolidate(self._fisher(cases))
        return applied

    def _consolidate(self, fisher: dict[str, torch.Tensor]) -> None:
        """Add a quadratic penalty: the sum of two is one around the importance-weighted mean of their anchors."""
        for name, found in fisher.items():
            now = self.trained[name].value.detach()
            if name not in self.importance:
                self.importance[name], self.anchor[name] = found, now.clone()
                continue
            whole = self.importance[name] + found
            # Without importance there is no penalty, so any anchor will do: the current value instead of 0/0.
            share = torch.where(whole > 0, found / whole, torch.ones_like(whole))
            self.importance[name], self.anchor[name] = whole, torch.lerp(self.anchor[name], now, share)

    def _fisher(self, cases: Sequence[Case]) -> dict[str, torch.Tensor]:
        """Mean over edits of the squared gradient of the answer's log-likelihood, by parameter."""
        pairs = examples(cases, self.contexts)
        most = min(self.settings.fisher_examples, len(pairs))
        chosen = random.Random(seed_for(self.seed, cases)).sample(pairs, most)
        total = {name: torch.zeros_like(own.value.detach()) for name, own in self.trained.items()}
        with self._training() as optimizer, self._losses() as loss_of, torch.enable_grad():
            for pair in chosen:
                backward(self.model, [pair], loss_of, optimizer=optimizer, scaler=self._scaler)
                # The loss is the mean over the answer's tokens, the log-likelihood their sum.
                tokens = encode_targets(self.model, [pair], learn_end=self.settings.learn_end).labels.numel()
                factor = tokens / self._scaler.get_scale()
                for name, own in self.trained.items():
                    if own.value.grad is not None:
                        # A gradient that overflows under the loss scale counts as 0: an infinite importance would
                        # freeze the parameter.
                        total[name].add_((own.value.grad * factor).square_().nan_to_num_(0, 0, 0), alpha=1 / most)
        return total


class SynapticIntelligence(ConsolidatedTuning[SynapticSettings]):
    """Trains every linear layer of the blocks with the penalty of synaptic intelligence.

    During training each parameter accumulates its contribution to the decrease of the loss, the sum of -gradient x
    change. After a call this sum, divided by the squared change of the whole call plus xi, is added to its importance.
    The penalty is c x importance x (parameter - parameter after the last call)^2.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        resumes_calls=True,
        source="SI, arXiv 1703.04200 section 3",
    )
    settings_type = SynapticSettings

    @property
    def slope(self) -> float:
        """Twice c, from the derivative of c x importance x d^2."""
        return 2 * self.settings.penalty

    def watch(self, optimizer: torch.optim.Optimizer) -> None:
        """Accumulate each step's part of the path integral in the optimizer's state, which is saved in checkpoints."""
        weights = {name: own.value for name, own in self.trained.items()}
        before: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

        def remember(*_: Any) -> None:
            before.clear()
            for name, own in weights.items():
                if own.grad is not None:
                    before[name] = (own.grad.clone(), own.detach().clone())

        # A hook that captured the optimizer would keep it, and all of its state, until Python looks for cycles.
        def add_up(stepped: torch.optim.Optimizer, *_: Any) -> None:
            for name, (gradient, start) in before.items():
                kept, own = stepped.state[weights[name]], weights[name].detach()
                path = kept["path"] if "path" in kept else torch.zeros_like(own)
                kept["path"] = path.addcmul_(gradient, own - start, value=-1)
            before.clear()

        if self.settings.penalty:
            optimizer.register_step_pre_hook(remember)
            optimizer.register_step_post_hook(add_up)

    @contextmanager
    def _training(self) -> Iterator[torch.optim.Optimizer]:
        """As in the base class; at the end the path integral is added to the importance."""
        starts = {name: own.value.detach().clone() for name, own in self.trained.items()}
        with super()._training() as optimizer:
            yield optimizer
            states = {name: optimizer.state[own.value] for name, own in self.trained.items()}
            self._consolidate({name: own["path"] for name, own in states.items() if "path" in own}, starts)

    def _consolidate(self, paths: dict[str, torch.Tensor], starts: dict[str, torch.Tensor]) -> None:
        for name, path in paths.items():
            now = self.trained[name].value.detach()
            # A negative importance would reward distance from the anchor, without bound.
            earned = path.clamp(min=0) / ((now - starts[name]).square() + self.settings.damping)
            self.importance[name] = self.importance.get(name, torch.zeros_like(now)) + earned
        if paths:
            self.anchor = {name: self.trained[name].value.detach().clone() for name in self.importance}
