"""Matrices that an editor changes: kept in float32 or wider while it works on them, and put back bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from kgedit.llm.devices import in_float64
from kgedit.llm.surgery.offloading import keep_loaded


class EditedMatrix:
    """The weight of one linear layer: the model's own until the first edit, then a copy in float32 at least.

    A small update added to a bfloat16 weight is rounded away (2^-8 relative), hence the wider copy; the layer's input
    and output are cast on the way. The model's own parameter is never written to.

    Args:
        layer: nn.Linear or Conv1D; if its weight is offloaded, it is kept loaded from now on.

    Attributes:
        wide: Number format of the copy.
    """

    def __init__(self, layer: Any) -> None:
        keep_loaded(layer)
        self._layer: Any = layer
        self._original: nn.Parameter = layer.weight
        self._original_bias: nn.Parameter | None = layer.bias
        self._handles: list[Any] = []
        self.wide = torch.promote_types(layer.weight.dtype, torch.float32)

    @property
    def before(self) -> torch.Tensor:
        """The matrix before the first edit, in float32 at least."""
        return self._original.detach().to(self.wide)

    @property
    def weight(self) -> nn.Parameter:
        """The matrix that the model now uses."""
        weight: nn.Parameter = self._layer.weight
        return weight

    def editable(self) -> nn.Parameter:
        """The wide copy, made at the first call; train or overwrite it."""
        if self._layer.weight is self._original:
            self._layer.weight = nn.Parameter(self.before.clone(), requires_grad=False)
            if self._original_bias is not None:
                self._layer.bias = nn.Parameter(self._original_bias.detach().to(self.wide), requires_grad=False)
            narrow, wide = self._original.dtype, self.wide
            if narrow != wide:
                self._handles = [
                    self._layer.register_forward_pre_hook(lambda _, inputs: (inputs[0].to(wide), *inputs[1:])),
                    self._layer.register_forward_hook(lambda _, __, output: output.to(narrow)),
                ]
        return self.weight

    @contextmanager
    def original(self) -> Iterator[None]:
        """Restore the matrix of before the first edit within the context."""
        used = self._layer.weight
        if used is not self._original:
            self._layer.weight = nn.Parameter(self.before, requires_grad=False)
        try:
            yield
        finally:
            self._layer.weight = used

    def write(self, value: torch.Tensor) -> None:
        """Put these values into the model."""
        with torch.no_grad():
            self.editable().copy_(value)

    def add(self, update: torch.Tensor) -> None:
        """Add an update of shape inputs x outputs, transposed if the layer stores its weight so."""
        with torch.no_grad():
            weight = self.editable()
            weight.add_((update if isinstance(self._layer, Conv1D) else update.T).to(weight))

    def products(self, keys: torch.Tensor) -> torch.Tensor:
        """What the matrix makes of inputs now, without the bias: outputs x columns, in float64, where the inputs are.

        Args:
            keys: Inputs x columns.
        """
        weight = in_float64(self.weight.detach().to(keys.device))
        found: torch.Tensor = (weight.T if isinstance(self._layer, Conv1D) else weight) @ keys
        return found

    def restore(self) -> None:
        """Put the original parameters back."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._layer.weight = self._original
        self._layer.bias = self._original_bias
