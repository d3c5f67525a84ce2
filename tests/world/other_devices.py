"""Simulates devices other than the CPU: tensors that report another device and cannot be mixed.

Operations that GPUs would refuse are refused here too: those on tensors of several devices, and reading a tensor's
memory without moving it to the CPU. Numbers are computed by the CPU, so they equal those of the CPU up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from accelerate import dispatch_model
from torch.utils._python_dispatch import TorchDispatchMode

KIND = "lazy"
"""A device type that torch knows, but has no kernels for here."""

_refused: set[torch.dtype] = set()
"""Number formats that currently no device supports."""

_aten = torch.ops.aten
_COPIES = {_aten.copy_.default, _aten._to_copy.default}
_TAKE_INDICES_FROM_CPU = {_aten.index.Tensor, _aten.index_put_.default}


class _There(torch.Tensor):
    """A tensor on another device; `here` contains its numbers."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor, device: torch.device) -> _There:
        # Leave inference mode: views created in it of tensors from outside would be of the wrong kind.
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):
                return cls.__new__(cls, here, device)
        layout = {"strides": here.stride(), "storage_offset": here.storage_offset(), "dtype": here.dtype}
        tensor: _There = torch.Tensor._make_wrapper_subclass(cls, here.size(), device=device, **layout)
        tensor.here = here
        return tensor

    def tolist(self) -> Any:
        return self.detach().here.tolist()

    def __repr__(self, **_: Any) -> str:
        return f"{self.detach().here!r} on {self.device}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Everywhere(TorchDispatchMode):
    """Handles calls that name a device without having a tensor there: new tensors, and moved ones."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    decomposes, mutates = _traits(func)
    if decomposes:
        # Inference mode passes some operations whole that are decomposed otherwise.
        with _Everywhere():
            return func.decompose(*args, **kwargs)
    tensors = _tensors([*args, *kwargs.values()])
    there = [tensor for tensor in tensors if isinstance(tensor, _There)]
    if there and func not in _COPIES:
        places = {tensor.device for tensor in there}
        if func not in _TAKE_INDICES_FROM_CPU:
            # A CPU scalar can be combined with any device.
            places |= {tensor.device for tensor in tensors if tensor.dim() > 0}
        if len(places) > 1:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device, but found {places}")
    found = func(*[_bring(value) for value in args], **{name: _bring(value) for name, value in kwargs.items()})
    if there and mutates and found is not None:
        return kwargs.get("out", args[0])
    place = kwargs.get("device") or (there[0].device if there else None)
    return found if place is None or place.type != KIND else _send(found, place)


@cache
def _traits(func: Any) -> tuple[bool, bool]:
    """Whether an operation can be decomposed, and whether it mutates its arguments."""
    return func._can_decompose(), func._schema.is_mutable


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors among values and in their lists; called a million times, so without a generator."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def _bring(value: Any) -> Any:
    if isinstance(value, _There):
        return value.here
    if isinstance(value, (list, tuple)):
        return [_bring(part) for part in value]
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == KIND else value


def _send(value: Any, place: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dtype in _refused:
            raise TypeError(f"Cannot convert a tensor to {value.dtype}: the device has no such format.")
        return _There(value, place)
    return type(value)([_send(part, place) for part in value]) if isinstance(value, (list, tuple)) else value


@contextmanager
def other_devices(*, without: Sequence[torch.dtype] = ()) -> Iterator[tuple[torch.device, torch.device]]:
    """Temporarily make two devices known to torch; modules moved there keep their weights tied.

    Args:
        without: Number formats that they lack, like float64 on Apple's GPUs.
    """
    _refused.update(without)
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    # torch.tensor(..., device=...) creates a CPU tensor and moves it.
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _Everywhere():
            yield torch.device(KIND, 0), torch.device(KIND, 1)
    finally:
        _refused.clear()
        torch._C._set_only_lift_cpu_tensors(False)
        torch.__future__.set_swap_module_params_on_conversion(before)


def spread_over(model: Any, first: torch.device, second: torch.device) -> None:
    """Let accelerate place the lowest block and all modules outside blocks on one device, other blocks on another."""
    blocks = next(name for name, module in model.named_modules() if isinstance(module, torch.nn.ModuleList))
    lowest, _, inner = blocks.partition(".")
    around = [name for name, _ in model.named_children() if name != lowest]
    around += [f"{lowest}.{name}" for name, _ in model.get_submodule(lowest).named_children() if name != inner]
    above = [f"{blocks}.{index}" for index in range(1, len(model.get_submodule(blocks)))]
    device_map = dict.fromkeys([*around, f"{blocks}.0"], str(first)) | dict.fromkeys(above, str(second))
    dispatch_model(model, device_map, main_device=str(first), force_hooks=True)


_WAITS = {_aten._local_scalar_dense.default, _aten.nonzero.default, _aten.masked_select.default, _aten.equal.default}


class Waits(TorchDispatchMode):
    """Counts operations that make the host wait for another device: they return a number, a size, or a CPU tensor.

    Attributes:
        count: Number of such operations so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        there = any(tensor.device.type == KIND for tensor in _tensors([*args, *(kwargs or {}).values()]))
        home = func in _COPIES and (kwargs or {}).get("device", args[0].device).type != KIND
        masks = func in _TAKE_INDICES_FROM_CPU and any(
            tensor.dtype == torch.bool and tensor.device.type == KIND for tensor in _tensors(args[1])
        )
        self.count += there and (func in _WAITS or home or masks)
        return func(*args, **(kwargs or {}))
