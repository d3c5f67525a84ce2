"""Copies of matrices in the order in which they are read, for those that are read again and again.

oneDNN otherwise reorders a matrix at each product, which for few rows takes as long as the product. The numbers are the
same to the last bit. A single row is multiplied by other means, which take long for matrices of many short rows: of
these there are transposed copies, whose products differ in the last bit, and which are therefore taken from the first
product on.

A copy is used only while its matrix holds the values that it was made of. torch counts most changes; changes through
`.data`, which it does not count (peft merges adapters so), are found by a digest of the whole matrix, once for each use
of the copies, and only if the matrix is read often enough in that use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from kgedit.llm.fingerprints import tensor_digest

MOST_BYTES = 2**30
"""Of all copies of one model: those of SmolLM2-135M take half of it, and as much again where all is trained through."""

_READINGS = 16
"""A matrix is copied when it has been read as often: a copy takes as long as what ten to twenty products gain."""
_UNCHECKED = 1
"""Products of a use that read the matrix itself. A question by itself reads each matrix once; checking all copies of
SmolLM2-135M would make it a quarter slower. An FT-M edit takes 3 to 5 % longer for the checks."""
_LEAST_ROWS, _MOST_ROWS = 2, 512
"""A single row is multiplied in another way, and with many rows the order hardly matters."""
_SHORT = 2
"""So many times as many rows as columns: for one row, a processor is slow to read many short rows."""
_STRIP = 64


class PackedMatrices:
    """The copies of one model's matrices.

    Args:
        most_bytes: Of all copies that oneDNN reads; what is read often after that stays without one. Transposed copies
            may take half as much again.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._digests: dict[int, bytes] = {}
        self._packed = _Copies(most_bytes, self._digests)
        self._transposed = _Copies(most_bytes // 2, self._digests)

    def of(self, layer: nn.Linear, inputs: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """What oneDNN is to multiply rows by: the layer's matrix or a copy of it.

        Args:
            inputs: The rows, for their number.
            transposed: Whether to multiply by the transposed matrix, as gradients are.
        """
        weight = layer.weight
        matrix = weight.detach().t() if transposed else weight
        rows = inputs.numel() // inputs.shape[-1]
        if not _LEAST_ROWS <= rows <= _MOST_ROWS or weight.is_inference() or not copies_are_exact():
            return matrix
        read = self._packed.reading((layer, transposed), weight)
        if read.times == _READINGS:
            self._packed.keep(read, lambda: torch.ops.mkldnn._reorder_linear_weight(matrix.detach(), rows))
        if read.copy is None or read.times_in_use <= _UNCHECKED or not self._packed.is_right(read):
            return matrix
        return read.copy

    def transposed(self, layer: nn.Linear) -> torch.Tensor | None:
        """A copy of the transposed matrix, for single rows; None where it would gain nothing, or takes too much."""
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
        """Check each copy again when it is next read: matrices may have changed since the last use.

        Within a use only changes that torch counts may be made.
        """
        self._digests.clear()
        self._packed.begin_use()
        self._transposed.begin_use()


@cache
def copies_are_exact() -> bool:
    """Whether products by a copy have the same bits as those by the matrix, with this torch on this processor.

    They have not with torch 2.9, whose oneDNN chooses another kernel: an answer would depend on how often a matrix had
    been read before.
    """
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(200, 160, generator=generator)
    for weight in (matrix, matrix.t()):
        for rows in (_LEAST_ROWS, 3, 10, 33, 300, _MOST_ROWS):
            inputs = torch.randn(rows, weight.shape[1], generator=generator)
            copy = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
            found = [torch.ops.mkldnn._linear_pointwise(inputs, by, None, "none", [], "") for by in (weight, copy)]
            if not torch.equal(*found):
                return False
    return True


_Key = tuple[nn.Linear, bool]


class _Copies:
    """Copies by layer and orientation, limited by their total size in bytes.

    Args:
        digests: Of the matrices that were checked in the present use, by their identity.
    """

    def __init__(self, most_bytes: int, digests: dict[int, bytes]) -> None:
        self._left, self._digests = most_bytes, digests
        self._read: dict[_Key, _Read] = {}

    def reading(self, key: _Key, weight: torch.Tensor) -> _Read:
        """Count a reading of a matrix; from 1 on where it is not the one that was read before."""
        read = self._read.get(key)
        if read is None or not read.is_of(weight):
            self._forget(key)
            read = self._read[key] = _Read(weight, weight._version, weight.data_ptr())
        read.times += 1
        read.times_in_use += 1
        return read

    def begin_use(self) -> None:
        """Count readings of a use from 0."""
        for read in self._read.values():
            read.times_in_use = 0

    def is_right(self, read: _Read) -> bool:
        """Whether a copy is of the values that its matrix holds; if not it is dropped, and readings count from 0."""
        if read.digest == self._digest(read.weight):
            return True
        self._forget(next(key for key, own in self._read.items() if own is read))
        return False

    def keep(self, read: _Read, make: Callable[[], torch.Tensor]) -> None:
        """Make a matrix's copy if there is room."""
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
    """A matrix as it was when it was first read, and how often it was since."""

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
    # In strips: at once it takes four times as long.
    found = torch.empty(weight.shape[::-1], dtype=weight.dtype)
    for start in range(0, len(weight), _STRIP):
        found[:, start : start + _STRIP] = weight[start : start + _STRIP].t()
    return found
