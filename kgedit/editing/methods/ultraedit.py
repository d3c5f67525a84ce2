"""`ultraedit`: one backward pass for a batch of edits, then a closed-form update of several MLP matrices (UltraEdit).

Nothing is optimised: keys are what the matrices read where the answer is predicted, values are output gradients; both
are z-scored by statistics that run over all edits so far, which keeps later edits of a long stream comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.editing.contract import Advance, Applied, Capabilities, Editor, State
from kgedit.editing.examples import CONTEXT_MEANING, examples, training_contexts
from kgedit.editing.gradients import gradient_parts
from kgedit.editing.layers import MATRICES_MEANING, choose_places, parse_places, parse_roles
from kgedit.editing.matrices import EditedMatrix
from kgedit.editing.running import RunningStatistics
from kgedit.editing.settings import Bounds, setting
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import Lines, lines_of
from kgedit.records.cases import Case, KnownFact


@dataclass(frozen=True, slots=True)
class UltraEditSettings:
    """Hyperparameters of UltraEdit."""

    layers: str | None = setting(
        None,
        "edited blocks as 18-26, or matrices of blocks as 11-15.gate,18-24.up; "
        "None: as published for the model, else from `first` to `last`",
        read_by=parse_places,
    )
    first: float = setting(
        0.6, "lowest edited block as a fraction of all", bounds=Bounds(least=0, most=1), instead_of="layers"
    )
    last: float = setting(
        0.9, "highest edited block as a fraction of all", bounds=Bounds(least=0, most=1), instead_of="layers"
    )
    matrices: str = setting("down", MATRICES_MEANING, read_by=parse_roles)
    learning_rate: float | None = setting(
        None, "scale of the values; None: as published, else by width", bounds=Bounds(above=0)
    )
    batch: int = setting(100, "edits per backward pass and solve", bounds=Bounds(least=1))
    warm_up: int = setting(0, "known facts that the statistics see before the first edit", bounds=Bounds(least=0))
    context: str = setting("question_only", CONTEXT_MEANING)
    learn_end: bool = setting(False, "whether the end of text is part of the target")


class UltraEdit(Editor[UltraEditSettings]):
    """Solves W' = W + (H'H + I)^-1 H'V per matrix, with V = -rate * |z(h)|^2 * z(g) for key h and output gradient g."""

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        source="UltraEdit, arXiv 2505.14679 section 3",
    )
    settings_type = UltraEditSettings
    method = "ultraedit"

    def __init__(
        self, model: LanguageModel, settings: UltraEditSettings, *, asked: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, asked=asked, seed=seed)
        own = self.settings
        self.places = choose_places(model, layers=own.layers, first=own.first, last=own.last, matrices=own.matrices)
        self.layers = sorted({place.block for place in self.places})
        self.learning_rate = own.learning_rate or _learning_rate(model.blocks[self.layers[0]].inner_width)
        self._contexts = training_contexts(own.context, asked)
        self._matrices = {place.name: EditedMatrix(place.module) for place in self.places}
        self._start: dict[str, RunningStatistics] = {}
        self._running: dict[str, RunningStatistics] = {}

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Warm the statistics up, where the settings ask for it."""
        facts = known[: self.settings.warm_up]
        for done in range(0, len(facts), self.settings.batch):
            advance(done, len(facts))
            batch = facts[done : done + self.settings.batch]
            pairs = [(context.prompt(fact.question), fact.answer) for fact in batch for context in self._contexts]
            self._observe(lines_of(self.model, pairs, learn_end=self.settings.learn_end))
        self._start = {name: _copy(running) for name, running in self._running.items()}

    def apply(self, cases: Sequence[Case]) -> Applied:
        """Edit in batches; the loss is that of the last batch before its own update."""
        loss = 0.0
        for done in range(0, len(cases), self.settings.batch):
            self.advance(done / len(cases))
            pairs = examples(cases[done : done + self.settings.batch], self._contexts)
            keys, loss = self._observe(lines_of(self.model, pairs, learn_end=self.settings.learn_end))
            for name, (inputs, gradients) in keys.items():
                running = self._running[name]
                self._matrices[name].add(update_of(inputs, gradients, running, learning_rate=self.learning_rate))
        return Applied(loss=loss)

    def derived(self) -> dict[str, Any]:
        """Blocks whose matrices are edited, and the scale of the values."""
        matrices = [place.name for place in self.places]
        chosen = {"layers": list(self.layers), "matrices": matrices, "learning_rate": self.learning_rate}
        return {**super().derived(), **chosen}

    def restore(self) -> None:
        """Give the model its own matrices back, and the statistics of before the first edit."""
        for matrix in self._matrices.values():
            matrix.restore()
        self._running = {name: _copy(running) for name, running in self._start.items()}

    def state(self) -> State:
        """Matrices and statistics."""
        tensors = {f"{name}.weight": matrix.weight.detach().float().clone() for name, matrix in self._matrices.items()}
        for name, running in self._running.items():
            tensors |= {f"{name}.mean": running.mean.clone(), f"{name}.squares": running.squares.clone()}
        return State(tensors, {"counts": {name: running.count for name, running in self._running.items()}})

    def load_state(self, state: State) -> None:
        """Take matrices and statistics over."""
        for name, matrix in self._matrices.items():
            matrix.write(state.tensors[f"{name}.weight"])
        device = self.model.device
        self._running = {
            name: RunningStatistics(
                count, state.tensors[f"{name}.mean"].to(device), state.tensors[f"{name}.squares"].to(device)
            )
            for name, count in state.record["counts"].items()
        }

    def _observe(self, lines: Lines) -> tuple[dict[str, tuple[torch.Tensor, torch.Tensor]], float]:
        """Inputs and output gradients of each matrix where answers are predicted, taken into the statistics."""
        parts, loss = gradient_parts(self.model, self.places, lines)
        found = {}
        for place, part in zip(self.places, parts, strict=True):
            inputs, gradients = part.inputs[lines.predicting], part.gradients[lines.predicting]
            both = torch.cat([inputs, gradients], dim=1)
            running = self._running.setdefault(place.name, RunningStatistics.empty(both.shape[1], both.device))
            running.add(both)
            found[place.name] = inputs, gradients
        return found, loss


def update_of(
    inputs: torch.Tensor, gradients: torch.Tensor, running: RunningStatistics, *, learning_rate: float
) -> torch.Tensor:
    """The closed form for one matrix, in float64.

    (H'H + I)^-1 H'V is computed as H'(HH' + I)^-1 V: the same, but as large as the batch and not as the layer.

    Args:
        inputs: H, vectors x inputs.
        gradients: vectors x outputs.
        running: Statistics over inputs and gradients side by side.

    Returns:
        inputs x outputs.
    """
    scores = running.normalize(torch.cat([inputs, gradients], dim=1))
    keys, slopes = scores[:, : inputs.shape[1]], scores[:, inputs.shape[1] :]
    values = -learning_rate * keys.square().sum(1, keepdim=True) * slopes
    read = inputs.double()
    gram = read @ read.T + torch.eye(len(read), dtype=torch.float64, device=read.device)
    update: torch.Tensor = read.T @ torch.linalg.solve(gram, values)
    return update


def _learning_rate(inner_width: int) -> float:
    """The published 1e-6 from 14,336 inner units (Llama-3-8B) up, more below.

    (SmolLM2-135M, 1,536 units, 20 CounterFact edits: teacher-forced 0 at 1e-5, 0.65 at 2e-4, 0.85 at 5e-4, where
    locality falls from 0.6 to 0.25.)
    """
    widened: float = max(1.0, 14336 / inner_width) ** 2.5
    return 1e-6 * widened


def _copy(running: RunningStatistics) -> RunningStatistics:
    return RunningStatistics(running.count, running.mean.clone(), running.squares.clone())
