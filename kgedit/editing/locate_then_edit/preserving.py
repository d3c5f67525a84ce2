"""Common base of MEMIT, ENCORE and RLSEdit: edits are weighted against lambda times C."""

from __future__ import annotations

from typing import TypeVar

import torch

from kgedit.editing.locate_then_edit.several_layers import SeveralLayersEditor
from kgedit.hparams.locate_then_edit import PreserveSettings

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
