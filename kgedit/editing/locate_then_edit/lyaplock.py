"""`lyaplock`: MEMIT with history, whose penalty on text grows while the outputs on text drift beyond a bound.

Each call minimises, for every layer, |W K - V|^2 + |W K_p - V_p|^2 + q lambda tr((W - W0) C (W - W0)^T): new edits,
past edits at the outputs that they have reached, and the drift on text from the original matrix. The bound is `alpha`
times the drift D0 after the first call. q counts excesses as a queue does: q <- max(q + D / (alpha D0) - 1, 1), which
is the paper's a Z with its a = 1 / sqrt(alpha D0). Because q multiplies C, no inverse can be carried from call to call:
each call solves a system of the matrix's inputs, and K_p K_p^T and V_p K_p^T are kept for each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.editing.editor import Capabilities, EditorState
from kgedit.editing.hparams.locate_then_edit import LyapLockSettings
from kgedit.editing.locate_then_edit.accumulated_solve import inverse
from kgedit.editing.locate_then_edit.memit import PreservingEditor
from kgedit.editing.row_tables import TableRows
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel


@dataclass(slots=True)
class _Past:
    """Past edits of one layer.

    Attributes:
        keys: K_p K_p^T, inputs x inputs, in float64.
        outputs: V_p K_p^T, outputs x inputs, in float64.
        queue: q, at least 1.
        first_drift: D0; None before the first call.
    """

    keys: torch.Tensor
    outputs: torch.Tensor
    queue: float = 1.0
    first_drift: float | None = None


class LyapLock(PreservingEditor[LyapLockSettings]):
    """Like MEMIT with history, with a penalty on text that grows while the drift exceeds a bound.

    The drift of a layer is that of its outputs on text from those of the original matrix. Its bound is a multiple of
    the drift after the first call.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="LyapLock, arXiv 2505.15702",
    )
    settings_type = LyapLockSettings

    def __init__(
        self, model: LanguageModel, settings: LyapLockSettings, *, contexts: Sequence[Context], seed: int
    ) -> None:
        super().__init__(model, settings, contexts=contexts, seed=seed)
        self._past: dict[int, _Past] = {}

    @property
    def remembers(self) -> bool:
        """False: past edits are not part of an `AccumulatedSolve`."""
        return False

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda C."""
        return inverse(self.text_penalty(layer))

    def change(self, layer: int, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Change of a layer that minimises its objective."""
        past, matrix = self._past_of(layer, keys.device), self.matrices[layer]
        weights = matrix.outputs_by_inputs(keys.device)
        penalty = past.queue * self.text_penalty(layer)
        wanted = residuals @ keys.T + past.outputs - weights @ past.keys - (weights - self._original(layer)) @ penalty
        found: torch.Tensor = torch.linalg.solve(keys @ keys.T + past.keys + penalty, wanted.T).T
        return found

    def changed(self, layer: int, keys: torch.Tensor) -> None:
        """Count the drift after a call, and remember its edits."""
        past, weights = self._past_of(layer, keys.device), self.matrices[layer].outputs_by_inputs(keys.device)
        drift = self.drift(layer)
        if past.first_drift is None:
            past.first_drift = drift
        bound = self.settings.alpha * past.first_drift
        past.queue = max(past.queue + (drift / bound if bound else 0.0) - 1, 1.0)
        past.keys += keys @ keys.T
        past.outputs += weights @ keys @ keys.T

    def drift(self, layer: int) -> float:
        """tr((W - W0) C (W - W0)^T): mean square of the change of a layer's outputs per token of text."""
        moment = self.second_moment(layer).matrix
        change = self.matrices[layer].outputs_by_inputs(moment.device) - self._original(layer).to(moment.device)
        return float(((change @ moment) * change).sum())

    def queue(self, layer: int) -> float:
        """q of a layer: the weight of its penalty in the next call."""
        return self._past[layer].queue if layer in self._past else 1.0

    def withdraw(self, case_ids: Sequence[str]) -> None:
        """Refused, because the penalty of each call depends on all edits before it.

        Raises:
            SpecError: always.
        """
        raise SpecError(
            [
                f"lyaplock cannot withdraw single edits ({', '.join(case_ids)}): the penalty of each call depends on "
                "the edits before it; restore undoes all"
            ]
        )

    def restore(self) -> None:
        """Restore the matrices and forget all edits."""
        super().restore()
        self._past = {}

    def load_state(self, state: EditorState) -> None:
        """Also loads the past edits."""
        super().load_state(state)
        queues: dict[str, tuple[float, float | None]] = state.record["queues"]
        self._past = {}
        for layer, (queue, first_drift) in queues.items():
            keys, outputs = (
                state.tensors[f"{name}.{layer}"].to(self.solving_device(int(layer)), copy=True)
                for name in ("past_keys", "past_outputs")
            )
            self._past[int(layer)] = _Past(keys, outputs, queue, first_drift)

    def _state(self, tables: dict[str, TableRows]) -> EditorState:
        state = super()._state(tables)
        past = {f"past_keys.{layer}": own.keys.clone() for layer, own in self._past.items()}
        past |= {f"past_outputs.{layer}": own.outputs.clone() for layer, own in self._past.items()}
        queues: dict[str, Any] = {str(layer): (own.queue, own.first_drift) for layer, own in self._past.items()}
        return EditorState({**state.tensors, **past}, {**state.record, "queues": queues}, state.tables)

    def _past_of(self, layer: int, device: torch.device) -> _Past:
        if layer not in self._past:
            outputs, inputs = self.matrices[layer].outputs_by_inputs(device).shape
            self._past[layer] = _Past(
                torch.zeros(inputs, inputs, dtype=torch.float64, device=device),
                torch.zeros(outputs, inputs, dtype=torch.float64, device=device),
            )
        return self._past[layer]

    def _original(self, layer: int) -> torch.Tensor:
        matrix = self.matrices[layer]
        with matrix.original():
            return matrix.outputs_by_inputs(self.solving_device(layer))
