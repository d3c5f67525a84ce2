"""`memit`, `encore`, `rlsedit`, `alphaedit`: many facts at once, by changes of several MLP down-projections.

All but `alphaedit` weigh edits against lambda times C, the second moment of a layer's inputs over text. `encore` is for
long sequences: it remembers past edits, penalises all changes a little and stops its search early. `rlsedit` is
recursive least squares over all edits, regularised to the original weights and to outputs on text. `alphaedit`
restricts changes to directions that other text hardly uses, and preserves past edits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import torch

from kgedit.editing.editor import Capabilities
from kgedit.editing.hparams.locate_then_edit import (
    RELATIVE_THRESHOLD,
    AlphaEditSettings,
    EncoreSettings,
    MemitSettings,
    NullSpaceSettings,
    PreserveSettings,
    RlsEditSettings,
)
from kgedit.editing.locate_then_edit.accumulated_solve import inverse
from kgedit.editing.locate_then_edit.second_moments import null_space
from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor

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
