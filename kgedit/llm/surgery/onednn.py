"""Products with frozen matrices on a CPU by oneDNN: up to twice as fast as torch's default.

torch multiplies float32 matrices by MKL, which is slow on processors of other manufacturers. Both compute in float32;
results differ in the last bits. How a layer multiplies depends on the gradients that are wanted:

    of its weight                     by torch, because it is trained
    none                              by oneDNN
    above it only                     by oneDNN, and only if its inputs are not those of the last call: nothing below it
                                      is trained, so in each step of an edit they are the same
    of its inputs, several rows       by oneDNN in both directions
    of its inputs, one row            by torch, which is up to twice as fast for the gradient of a single row

torch.compile multiplies by oneDNN's operators, but torch keeps them private. Only this module calls them: if a release
of torch renames them or changes their arguments, `problem` reports it, models multiply by torch's public operator,
which is slower, and `tests/unit/llm/surgery/test_onednn.py` fails.

Repeatedly used matrices are copied in the memory layout of oneDNN, which otherwise reorders a matrix at each product;
for few rows that takes as long as the product. The results are identical to the last bit. A single row is multiplied by
another kernel, which is slow for matrices of many short rows: for these there are transposed copies. Their products
differ in the last bit, so they are used from the first product on.

A copy is used only while its matrix has the values that it was made from. torch counts most changes. Changes through
`.data`, which it does not count (peft merges adapters this way), are detected by a digest of the whole matrix, once per
use of the copies, and only if the matrix is read often enough in that use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from kgedit.llm.model_files import tensor_digest


def product(inputs: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return inputs W^T + bias.

    Args:
        inputs: Shape ... x features; float32, in main memory.
        matrix: W, outputs x features, or the result of `reordered`.
        bias: Shape outputs, or None.
    """
    # The last three arguments are the function applied to the result, its parameters, and its variant: none.
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs.contiguous(), matrix, bias, "none", [], "")
    return found


def reordered(matrix: torch.Tensor, rows: int) -> torch.Tensor:
    """Return a copy of a matrix in the memory layout that oneDNN reads fastest for a number of rows of inputs."""
    found: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix, rows)
    return found


@cache
def problem() -> str | None:
    """Why the operators cannot be used, or None; found by multiplying two small matrices."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "torch was built without oneDNN"
    numbers = torch.arange(12, dtype=torch.float32, device="cpu")
    inputs, matrix, bias = numbers[:6].view(2, 3), numbers.view(4, 3), numbers[:4]
    expected = linear(inputs, matrix, bias)
    try:
        found = [product(inputs, weight, bias) for weight in (matrix, reordered(matrix, len(inputs)))]
    except (AttributeError, RuntimeError, TypeError) as error:
        return f"torch {torch.__version__} has changed its private operators of oneDNN: {error}"
    if not all(torch.allclose(other, expected) for other in found):
        return f"torch {torch.__version__} multiplies differently by its private operators of oneDNN"
    return None


MOST_BYTES = 2**30
"""Maximum bytes of all copies of one model: SmolLM2-135M takes half, or all if gradients pass through all layers."""

_READINGS = 16
"""Number of reads before a matrix is copied: a copy takes as long as ten to twenty products save."""
_UNCHECKED = 1
"""Number of products per use that read the matrix itself. A single question reads each matrix once; checking all copies
of SmolLM2-135M would make it a quarter slower. The checks make an FT-M edit 3 to 5 % slower."""
_LEAST_ROWS, _MOST_ROWS = 2, 512
"""A single row uses another kernel, and with many rows the layout hardly matters."""
_SHORT = 2
"""Minimum ratio of rows to columns for a transposed copy: for a single row, many short matrix rows are slow to read."""
_STRIP = 64  # rows; a strip of both matrices stays in the processor's cache


class PackedMatrices:
    """Copies of one model's matrices.

    Args:
        most_bytes: Maximum size of all copies for oneDNN; later matrices are not copied. Transposed copies may take
            another half of this.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._digests: dict[int, bytes] = {}
        self._packed = _Copies(most_bytes, self._digests)
        self._transposed = _Copies(most_bytes // 2, self._digests)

    def of(self, layer: nn.Linear, inputs: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """Return the matrix by which oneDNN multiplies rows: the layer's weight or a copy of it.

        Args:
            inputs: The rows; only their number is used.
            transposed: Whether to multiply by the transposed matrix, which gives gradients.
        """
        weight = layer.weight
        matrix = weight.detach().t() if transposed else weight
        rows = inputs.numel() // inputs.shape[-1]
        if not _LEAST_ROWS <= rows <= _MOST_ROWS or weight.is_inference() or not copies_are_exact():
            return matrix
        read = self._packed.reading((layer, transposed), weight)
        if read.times == _READINGS:
            self._packed.keep(read, lambda: reordered(matrix.detach(), rows))
        if read.copy is None or read.times_in_use <= _UNCHECKED or not self._packed.is_right(read):
            return matrix
        return read.copy

    def transposed(self, layer: nn.Linear) -> torch.Tensor | None:
        """Return a transposed copy for single rows; None if it is not faster or takes too much memory."""
        weight = layer.weight
        if layer.out_features < _SHORT * layer.in_features or weight.is_inference():
            return None
        read = self._transposed.reading((layer, True), weight)
        if read.copy is not None and not self._transposed.is_right(read):
            read = self._transposed.reading((layer, True), weight)
        if read.times == 1:
            self._transposed.keep(read, lambda: _transposed(weight.detach()))
        return read.copy

    def begin_use(self) -> None:
        """Start a use: each copy is checked again at its next read, because matrices may have changed.

        Within a use, only changes that torch counts are allowed.
        """
        self._digests.clear()
        self._packed.begin_use()
        self._transposed.begin_use()


@cache
def copies_are_exact() -> bool:
    """Whether products with a copy are bitwise equal to those with the matrix, with this torch on this processor.

    They are not with torch 2.9, whose oneDNN chooses another kernel: answers would depend on how often a matrix was
    read before.
    """
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(200, 160, generator=generator)
    for weight in (matrix, matrix.t()):
        for rows in (_LEAST_ROWS, 3, 10, 33, 300, _MOST_ROWS):
            inputs = torch.randn(rows, weight.shape[1], generator=generator)
            copy = reordered(weight, rows)
            if not torch.equal(product(inputs, weight, None), product(inputs, copy, None)):
                return False
    return True


_Key = tuple[nn.Linear, bool]


class _Copies:
    """Copies by layer and orientation, limited by their total size in bytes.

    Args:
        digests: Digests of the matrices checked in the current use, by identity.
    """

    def __init__(self, most_bytes: int, digests: dict[int, bytes]) -> None:
        self._left, self._digests = most_bytes, digests
        self._read: dict[_Key, _Read] = {}

    def reading(self, key: _Key, weight: torch.Tensor) -> _Read:
        """Count a read of a matrix; the count restarts at 1 if it is a different matrix than before."""
        read = self._read.get(key)
        if read is None or not read.is_of(weight):
            self._forget(key)
            read = self._read[key] = _Read(weight, weight._version, weight.data_ptr())
        read.times += 1
        read.times_in_use += 1
        return read

    def begin_use(self) -> None:
        """Reset the number of reads for a new use."""
        for read in self._read.values():
            read.times_in_use = 0

    def is_right(self, read: _Read) -> bool:
        """Whether a copy matches its matrix; if not, it is dropped and the number of reads reset to 0."""
        if read.digest == self._digest(read.weight):
            return True
        self._forget(next(key for key, own in self._read.items() if own is read))
        return False

    def keep(self, read: _Read, make: Callable[[], torch.Tensor]) -> None:
        """Copy a matrix if there is room."""
        if read.weight.nbytes <= self._left:
            self._left -= read.weight.nbytes
            read.digest = self._digests[id(read.weight)] = tensor_digest(read.weight)
            read.copy = make()

    def _digest(self, weight: torch.Tensor) -> bytes:
        if id(weight) not in self._digests:
            self._digests[id(weight)] = tensor_digest(weight)
        return self._digests[id(weight)]

    def _forget(self, key: _Key) -> None:
        read = self._read.pop(key, None)
        if read is not None and read.copy is not None:
            self._left += read.weight.nbytes


@dataclass
class _Read:
    """Identity of a matrix at its first read, and its number of reads since."""

    weight: torch.Tensor
    version: int
    address: int
    times: int = 0
    times_in_use: int = 0
    digest: bytes = b""
    copy: torch.Tensor | None = None

    def is_of(self, weight: torch.Tensor) -> bool:
        return self.weight is weight and self.version == weight._version and self.address == weight.data_ptr()


def _transposed(weight: torch.Tensor) -> torch.Tensor:
    # In strips, because a single call takes four times as long.
    found = torch.empty(weight.shape[::-1], dtype=weight.dtype)
    for start in range(0, len(weight), _STRIP):
        found[:, start : start + _STRIP] = weight[start : start + _STRIP].t()
    return found


_LEAST_WIDTH = 128
"""Minimum of both dimensions of a matrix; for smaller ones the call costs more than the product."""


class _PackedModel(Protocol):
    """What frozen products need of a `LanguageModel`."""

    @property
    def module(self) -> Any: ...

    @property
    def packed(self) -> PackedMatrices: ...


@contextmanager
def frozen_products(model: _PackedModel) -> Iterator[None]:
    """Context in which frozen linear layers of a float32 model on the CPU multiply by oneDNN.

    Frozen weights must not change within the context. Hooks of the layers still run. Other models, and layers whose
    forward was replaced, are left unchanged.
    """
    # `forward` becomes an attribute of the layer itself, which Python finds before its class's method. A layer that has
    # one is in another such context, or was patched by another library (accelerate), whose forward has to run.
    layers = [] if problem() else [layer for layer in _layers(model) if "forward" not in vars(layer)]
    if layers:
        model.packed.begin_use()
    for layer in layers:
        vars(layer)["forward"] = _FrozenForward(layer, model.packed)
    try:
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


def _layers(model: _PackedModel) -> list[nn.Linear]:
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
            return product(inputs, self._packed.of(layer, inputs), layer.bias)
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
            self._last_inputs, self._last_product = inputs.clone(), product(inputs, matrix, self._layer.bias)
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
        return product(inputs, packed.of(layer, inputs), layer.bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return product(slopes, ctx.packed.of(ctx.layer, slopes, transposed=True), None), None, None
