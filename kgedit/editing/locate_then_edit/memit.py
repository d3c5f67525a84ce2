"""`memit`, `encore`, `rlsedit`, `lyaplock`, `alphaedit`: many facts at once, by changes of MLP down-projections.

All but `alphaedit` weigh edits against lambda times C, the second moment of a layer's inputs over text. `encore` is for
long sequences: it remembers past edits, penalises all changes a little and stops its search early. `rlsedit` is
recursive least squares over all edits, regularised to the original weights and to outputs on text. `alphaedit`
restricts changes to directions that other text hardly uses, and preserves past edits.

`lyaplock` is MEMIT with history, whose penalty on text grows while the outputs on text drift beyond a bound. Each call
minimises, for every layer, |W K - V|^2 + |W K_p - V_p|^2 + q lambda tr((W - W0) C (W - W0)^T): new edits, past edits at
the outputs that they have reached, and the drift on text from the original matrix. The bound is `alpha` times the drift
D0 after the first call. q counts excesses as a queue does: q <- max(q + D / (alpha D0) - 1, 1), which is the paper's a
Z with its a = 1 / sqrt(alpha D0). Because q multiplies C, no inverse can be carried from call to call: each call solves
a system of the matrix's inputs, and K_p K_p^T and V_p K_p^T are kept for each layer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from kgedit.editing.editor import Capabilities, EditorState
from kgedit.editing.hparams.locate_then_edit import (
    RELATIVE_THRESHOLD,
    AlphaEditSettings,
    EncoreSettings,
    LyapLockSettings,
    MemitSettings,
    NullSpaceSettings,
    PreserveSettings,
    RlsEditSettings,
)
from kgedit.editing.locate_then_edit.closed_form import inverse
from kgedit.editing.locate_then_edit.second_moments import null_space
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.editing.row_tables import TableRows
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel

_WITHDRAWING = (
    "A withdrawn edit leaves each layer with the solution over the keys and values of the others, but edits made with "
    "or after it keep the keys and values that were computed while it was in the model"
)

Settings = TypeVar("Settings", bound=PreserveSettings)


class PreservingEditor(SeveralLayersEditor[Settings]):
    """Weighs edits against lambda times C.

    A lambda tuned with statistics of millions of tokens is too large for statistics of few tokens. With fewer than
    `enough` tokens per dimension it is reduced in proportion, so that each token has the same weight as at `enough`.
    """

    def preserve(self, layer: int) -> float:
        """Effective lambda of a layer."""
        own, moment = self.settings, self.second_moment(layer)
        return own.preserve if self.comparable(layer) else own.preserve * moment.tokens_per_dimension / own.enough

    def text_penalty(self, layer: int) -> torch.Tensor:
        """Lambda times C, damped."""
        return self.preserve(layer) * self.damped(layer)

    def notes(self) -> list[str]:
        """Notes on the applied lambda, with the reason."""
        layer, own = self.layers[0], self.settings
        tokens = self.second_moment(layer).tokens_per_dimension
        return [
            *super().notes(),
            f"lambda is {self.preserve(layer):g} and not {own.preserve:g}: the statistics have {tokens:.3g} tokens for "
            f"each dimension, and {own.preserve:g} is applied from {own.enough:g} on (settings.enough)",
        ]


class Memit(PreservingEditor[MemitSettings]):
    """Edits many facts at once in closed form, spread over several layers.

    The change of each layer is R K^T (lambda C + K K^T)^-1. With `history`, K K^T is summed over all edits so far, so
    that new edits preserve the old ones.
    """

    capabilities = Capabilities(
        protocols=("per_timestep", "sequential", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="MEMIT, arXiv 2210.07229 section 4; history as in arXiv 2605.26670",
        withdrawing=f"With `history`: {_WITHDRAWING[0].lower()}{_WITHDRAWING[1:]}",
    )
    settings_type = MemitSettings

    @property
    def remembers(self) -> bool:
        """The setting `history`."""
        return self.settings.history

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda C."""
        return inverse(self.text_penalty(layer))


class Encore(PreservingEditor[EncoreSettings]):
    """Like MEMIT with history, with a penalty on the norm of all changes.

    The change of each layer is R K^T (lambda_p C + lambda_n + K_p K_p^T + K K^T)^-1, with K_p the keys of past edits.
    The search for values ends a few steps after all tokens of the target are the most likely.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="ENCORE, arXiv 2502.01636",
        withdrawing=_WITHDRAWING,
    )
    settings_type = EncoreSettings

    @property
    def patience(self) -> int:
        """The setting `patience`."""
        return self.settings.patience

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda_p C + lambda_n."""
        penalty = self.text_penalty(layer)
        penalty.diagonal().add_(self.settings.penalty)
        return inverse(penalty)


class RlsEdit(PreservingEditor[RlsEditSettings]):
    """Each layer minimises sum |W K - V|^2 + lambda^2 |W - W0|^2 + mu^2 |W K0 - V0|^2 over all edits so far.

    K0 K0^T is the second moment C of text times `preserve`. With the defaults of its code (lambda 0, mu 1), it is MEMIT
    with history.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="RLSEdit, arXiv 2601.15686",
        withdrawing=_WITHDRAWING,
    )
    settings_type = RlsEditSettings

    def start(self, layer: int) -> torch.Tensor:
        """The inverse of lambda^2 + mu^2 times `preserve` times C."""
        own = self.settings
        penalty = own.keep_outputs**2 * self.text_penalty(layer)
        penalty.diagonal().add_(own.keep_weights**2)
        return inverse(penalty)


NullSpace = TypeVar("NullSpace", bound=NullSpaceSettings)


class NullSpaceEditor(SeveralLayersEditor[NullSpace]):
    """Restricts changes to the directions that known facts hardly use."""

    def details(self) -> dict[str, Any]:
        """Details of MEMIT, and the dimension of each layer's null space."""
        found = super().details()
        if found["statistics"] is None:
            return found
        return {**found, "null_space": {str(layer): self.basis(layer).shape[1] for layer in self.layers}}

    def basis(self, layer: int) -> torch.Tensor:
        """Orthonormal columns that span the null space."""
        threshold, relative = self._threshold(layer)
        return null_space(self.second_moment(layer), threshold=threshold, relative=relative)

    def _threshold(self, layer: int) -> tuple[float, bool]:
        """Threshold, and whether it is a share of the trace, which is always the case with small statistics."""
        own = self.settings
        if own.relative or self.comparable(layer):
            return own.threshold, own.relative
        return RELATIVE_THRESHOLD, True

    def notes(self) -> list[str]:
        """Notes on the applied threshold, with the reason."""
        layer, own = self.layers[0], self.settings
        tokens, (threshold, relative) = self.second_moment(layer).tokens_per_dimension, self._threshold(layer)
        if relative == own.relative:
            return super().notes()
        return [
            *super().notes(),
            f"the null space contains {threshold:g} of C's trace; the threshold of {own.threshold:g} is not applied: "
            f"the statistics have {tokens:.3g} tokens for each dimension, fewer than {own.enough:g} (settings.enough)",
        ]

    def start(self, layer: int) -> torch.Tensor:
        """Projection onto the null space divided by L2: changes outside of it have infinite cost."""
        basis = self.basis(layer)
        return basis @ basis.T / self.penalty(layer, basis)

    @abstractmethod
    def penalty(self, layer: int, basis: torch.Tensor) -> float:
        """L2 of a layer whose null space has this basis."""


class AlphaEdit(NullSpaceEditor[AlphaEditSettings]):
    """Like MEMIT, with changes restricted to directions that known facts do not use.

    The change of each layer solves for the edits within the null space and maps the keys of all past edits to zero.
    Without `history` each call is solved separately.
    """

    capabilities = Capabilities(
        protocols=("sequential", "per_timestep", "single"),
        changes_weights=True,
        needs_known_facts=True,
        resumes_calls=True,
        source="AlphaEdit, arXiv 2410.02355; sequential solve as in arXiv 2605.26670",
        withdrawing=_WITHDRAWING,
    )
    settings_type = AlphaEditSettings

    @property
    def remembers(self) -> bool:
        """The setting `history`."""
        return self.settings.history

    def penalty(self, layer: int, basis: torch.Tensor) -> float:  # noqa: ARG002 - the same for all layers
        """The setting `penalty`."""
        return self.settings.penalty


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
            ],
            of="Nothing was withdrawn",
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
