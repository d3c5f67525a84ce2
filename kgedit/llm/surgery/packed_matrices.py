"""Copies of matrices in the order in which oneDNN reads them, for those that are read again and again.

oneDNN otherwise reorders a matrix at each product, which for few rows takes as long as the product. The numbers are the
same to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

MOST_BYTES = 2**30
"""Of all copies of one model: those of SmolLM2-135M take half of it, and as much again where all is trained through."""

_READINGS = 16
"""A matrix is copied when it has been read as often: a copy takes as long as what ten to twenty products gain."""
_LEAST_ROWS, _MOST_ROWS = 2, 512
"""A single row is multiplied in another way, and with many rows the order hardly matters."""
_SAMPLE = 64


class PackedMatrices:
    """The copies of one model's matrices.

    Args:
        most_bytes: Of all copies together; what is read often after that stays without one.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._left = most_bytes
        self._read: dict[tuple[nn.Linear, bool], _Read] = {}

    def of(self, layer: nn.Linear, inputs: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
        """What to multiply rows by: the layer's matrix or a copy of it.

        Args:
            inputs: The rows, for their number.
            transposed: Whether to multiply by the transposed matrix, as gradients are.
        """
        weight = layer.weight
        matrix = weight.detach().t() if transposed else weight
        rows = inputs.numel() // inputs.shape[-1]
        if not _LEAST_ROWS <= rows <= _MOST_ROWS or weight.is_inference():
            return matrix
        key = layer, transposed
        read = self._read.get(key)
        if read is None or not read.is_of(weight):
            self._forget(key)
            read = self._read[key] = _Read(weight, weight._version, weight.data_ptr(), _sample(weight))
        read.times += 1
        if read.times == _READINGS and weight.nbytes <= self._left:
            self._left -= weight.nbytes
            read.packed = torch.ops.mkldnn._reorder_linear_weight(matrix.detach(), rows)
        return matrix if read.packed is None else read.packed

    def forget_changed(self) -> None:
        """Drop copies of matrices that hold other values now: torch's count of changes does not see all of them."""
        for key in [key for key, read in self._read.items() if not torch.equal(_sample(read.weight), read.sample)]:
            self._forget(key)

    def _forget(self, key: tuple[nn.Linear, bool]) -> None:
        read = self._read.pop(key, None)
        if read is not None and read.packed is not None:
            self._left += read.weight.nbytes


@dataclass
class _Read:
    """A matrix as it was when it was first read, and how often it was since."""

    weight: torch.Tensor
    version: int
    address: int
    sample: torch.Tensor
    times: int = 0
    packed: torch.Tensor | None = None

    def is_of(self, weight: torch.Tensor) -> bool:
        return self.weight is weight and self.version == weight._version and self.address == weight.data_ptr()


def _sample(weight: torch.Tensor) -> torch.Tensor:
    flat = weight.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLE)].clone()
