"""Products with frozen matrices on a CPU by oneDNN: up to twice as fast as torch's default.

torch multiplies float32 matrices by MKL, which is slow on processors of other manufacturers. Both compute in float32;
results differ in the last bits. How a layer multiplies depends on the gradients that are wanted:

    of its weight                     by torch, because it is trained
    none                              by oneDNN
    above it only                     by oneDNN, and only if its inputs are not those of the last call: nothing below it
                                      is trained, so in each step of an edit they are the same
    of its inputs, several rows       by oneDNN in both directions
    of its inputs, one row            by torch, which is up to twice as fast for the gradient of a single row
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery import onednn
from kgedit.llm.surgery.packed_matrices import PackedMatrices

_LEAST_WIDTH = 128
"""Minimum of both dimensions of a matrix; for smaller ones the call costs more than the product."""


@contextmanager
def frozen_products(model: LanguageModel) -> Iterator[None]:
    """Context in which frozen linear layers of a float32 model on the CPU multiply by oneDNN.

    Frozen weights must not change within the context. Hooks of the layers still run. Other models, and layers whose
    forward was replaced, are left unchanged.
    """
    # `forward` becomes an attribute of the layer itself, which Python finds before its class's method. A layer that has
    # one is in another such context, or was patched by another library (accelerate), whose forward has to run.
    layers = [] if onednn.problem() else [layer for layer in _layers(model) if "forward" not in vars(layer)]
    if layers:
        model.packed.begin_use()
    for layer in layers:
        vars(layer)["forward"] = _FrozenForward(layer, model.packed)
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _layers(model: LanguageModel) -> list[nn.Linear]:
    """Linear layers with a large enough float32 weight in main memory."""
    return [
        module
        for module in model.module.modules()
        if type(module) is nn.Linear  # a subclass may compute something else
        and module.weight.dtype == torch.float32
        and module.weight.device.type == "cpu"
        and min(module.weight.shape) >= _LEAST_WIDTH
    ]


class _FrozenForward:
    """Forward of one layer."""

    def __init__(self, layer: nn.Linear, packed: PackedMatrices) -> None:
        self._layer, self._packed = layer, packed
        self._last_inputs = self._last_product = torch.empty(0)

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        layer = self._layer
        with_gradients = torch.is_grad_enabled()
        trained = with_gradients and any(own is not None and own.requires_grad for own in (layer.weight, layer.bias))
        if trained or layer.weight.dtype != inputs.dtype:
            return linear(inputs, layer.weight, layer.bias)
        if not with_gradients:
            return onednn.product(inputs, self._packed.of(layer, inputs), layer.bias)
        if not inputs.requires_grad:
            return self._once(inputs)
        if inputs.numel() == inputs.shape[-1]:
            return self._of_one_row(inputs)
        found: torch.Tensor = _FrozenProduct.apply(inputs, layer, self._packed)
        return found

    def _once(self, inputs: torch.Tensor) -> torch.Tensor:
        """Product that is computed again only for other inputs; the caller may change the tensor."""
        if not torch.equal(inputs, self._last_inputs):
            matrix = self._packed.of(self._layer, inputs)
            self._last_inputs, self._last_product = inputs.clone(), onednn.product(inputs, matrix, self._layer.bias)
        return self._last_product.clone()

    def _of_one_row(self, inputs: torch.Tensor) -> torch.Tensor:
        """Product by torch, with a transposed copy of the matrix if there is one."""
        transposed, bias = self._packed.transposed(self._layer), self._layer.bias
        if transposed is None:
            return linear(inputs, self._layer.weight, bias)
        found = inputs @ transposed
        return found if bias is None else found + bias


class _FrozenProduct(torch.autograd.Function):
    """Product of several rows, with a gradient of the rows only; both read the layer's matrix or a copy of it."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, layer: nn.Linear, packed: PackedMatrices) -> torch.Tensor:
        ctx.layer, ctx.packed = layer, packed
        return onednn.product(inputs, packed.of(layer, inputs), layer.bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return onednn.product(slopes, ctx.packed.of(ctx.layer, slopes, transposed=True), None), None, None
