"""Detects on the CPU where a program would wait for its GPU: reading a number, or counting elements first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
_WAITING = {
    _aten._local_scalar_dense.default,
    _aten.nonzero.default,
    _aten.equal.default,
    _aten.masked_select.default,
    _aten.repeat_interleave.Tensor,
}


class _Counting(TorchDispatchMode):
    def __init__(self, waits: list[str]) -> None:
        super().__init__()
        self._waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = args[1] if func in {_aten.index.Tensor, _aten.index_put_.default} else ()
        masked = any(mask is not None and mask.dtype in {torch.bool, torch.uint8} for mask in masks)
        if func in _WAITING or masked:
            self._waits.append(str(func))
        return func(*args, **(kwargs or {}))


@contextmanager
def counted_waits() -> Iterator[list[str]]:
    """Yield a list that gets an entry for each wait."""
    waits: list[str] = []
    whole = torch.Tensor.tolist

    def tolist(tensor: torch.Tensor) -> Any:
        waits.append("tolist")
        with torch.utils._python_dispatch._disable_current_modes():
            return whole(tensor)

    torch.Tensor.tolist = tolist  # type: ignore[method-assign, assignment]
    try:
        with _Counting(waits):
            yield waits
    finally:
        torch.Tensor.tolist = whole  # type: ignore[method-assign]
