"""Products with frozen matrices on a CPU by oneDNN: up to twice as fast as torch's default.

torch multiplies float32 matrices by MKL, which is slow on processors of other manufacturers. Both compute in float32;
results differ in the last bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.packed_matrices import PackedMatrices

_LEAST_WIDTH = 128
"""Minimum of both dimensions of a matrix; for smaller ones the call costs more than the product."""


@contextmanager
def frozen_products(model: LanguageModel) -> Iterator[None]:
    """Context in which frozen linear layers of a float32 model on the CPU multiply by oneDNN.

    Frozen weights must not change within the context. Hooks of the layers still run. Other models, and layers whose
    forward was replaced, are left unchanged.
    """
    own = [module for module in _layers(model) if "forward" not in module.__dict__] if _is_there() else []
    if own:  # otherwise inside another such context
        model.packed.begin_use()
    for module in own:
        vars(module)["forward"] = partial(_forward, module, model.packed, _LastProduct())
    try:
        yield
    finally:
        for module in own:
            vars(module).pop("forward", None)


def _layers(model: LanguageModel) -> list[nn.Linear]:
    """Linear layers with a large enough float32 weight in main memory."""
    return [
        module
        for module in model.module.modules()
        if type(module) is nn.Linear
        and module.weight.dtype == torch.float32
        and module.weight.device.type == "cpu"
        and min(module.weight.shape) >= _LEAST_WIDTH
    ]


def _is_there() -> bool:
    there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and all(hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight"))


def _forward(module: nn.Linear, packed: PackedMatrices, last: _LastProduct, inputs: torch.Tensor) -> torch.Tensor:
    weight, bias = module.weight, module.bias
    trained = torch.is_grad_enabled() and (weight.requires_grad or (bias is not None and bias.requires_grad))
    if trained or weight.dtype != inputs.dtype:
        return linear(inputs, weight, bias)
    matrix = packed.of(module, inputs)
    if not torch.is_grad_enabled():
        return _product(inputs, matrix, bias)
    if not inputs.requires_grad:
        return last.of(inputs, matrix, bias)
    if inputs.numel() == inputs.shape[-1]:
        return _of_one_row(inputs, packed.transposed(module), module)
    found: torch.Tensor = _FrozenProduct.apply(inputs, matrix, bias, weight, module, packed)
    return found


def _of_one_row(inputs: torch.Tensor, transposed: torch.Tensor | None, layer: nn.Linear) -> torch.Tensor:
    """Product by torch: for the gradient of one row oneDNN takes up to twice as long.

    Args:
        transposed: A copy of the layer's transposed matrix, or None.
    """
    if transposed is None:
        return linear(inputs, layer.weight, layer.bias)
    found = inputs @ transposed
    return found if layer.bias is None else found + layer.bias


class _LastProduct:
    """Last product of a layer below which nothing is trained, so that its input is the same in each step."""

    def __init__(self) -> None:
        self._inputs = self._found = torch.empty(0)

    def of(self, inputs: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return the product, as a separate tensor for the caller."""
        if not torch.equal(inputs, self._inputs):
            self._inputs, self._found = inputs.clone(), _product(inputs, matrix, bias)
        return self._found.clone()


class _FrozenProduct(torch.autograd.Function):
    """x W^T + b, with a gradient for x only; `matrix` is W, the layer's weight, or a copy of it."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        matrix: torch.Tensor,
        bias: torch.Tensor | None,
        weight: torch.Tensor,
        layer: nn.Linear,
        packed: PackedMatrices,
    ) -> torch.Tensor:
        ctx.save_for_backward(weight)
        ctx.layer, ctx.packed = layer, packed
        return _product(inputs, matrix, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _product(slopes, ctx.packed.of(ctx.layer, slopes, transposed=True), None), *[None] * 5


def _product(inputs: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    # torch.compile multiplies by this operator; there is no public function for it.
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs.contiguous(), matrix, bias, "none", [], "")
    return found
