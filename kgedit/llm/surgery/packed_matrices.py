"""Copies of repeatedly used matrices in the memory layout of oneDNN.

Otherwise oneDNN reorders a matrix at each product, which for few rows takes as long as the product. The results are
identical to the last bit. A single row is multiplied by another kernel, which is slow for matrices of many short rows:
for these there are transposed copies. Their products differ in the last bit, so they are used from the first product
on.

A copy is used only while its matrix has the values that it was made from. torch counts most changes. Changes through
`.data`, which it does not count (peft merges adapters this way), are detected by a digest of the whole matrix, once per
use of the copies, and only if the matrix is read often enough in that use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from kgedit.llm.fingerprints import tensor_digest
from kgedit.llm.surgery import onednn

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
            self._packed.keep(read, lambda: onednn.reordered(matrix.detach(), rows))
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
            copy = onednn.reordered(weight, rows)
            if not torch.equal(onednn.product(inputs, weight, None), onednn.product(inputs, copy, None)):
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
