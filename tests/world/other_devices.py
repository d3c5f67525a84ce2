"""Simulates devices other than the CPU: tensors that report another device and cannot be mixed.

Operations that GPUs would refuse are refused here too: those on tensors of several devices, those for which torch has
no CUDA kernel, products of integers, random numbers from another device's generator, and reading a tensor's memory
without moving it to the CPU. Numbers are computed by the CPU, so they equal those of the CPU up to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from accelerate import dispatch_model
from torch._C import DispatchKey
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

KIND = "lazy"
"""A device type that torch knows, but has no kernels for here. Its gradients are computed in the caller's thread."""

_refused: set[torch.dtype] = set()
"""Number formats that currently no device supports."""

_reported = [KIND]
"""Device type that tensors report to Python: KIND, or "cuda" in `gpus`."""

_aten = torch.ops.aten
_COPIES = {_aten.copy_.default, _aten._to_copy.default}
_TAKE_INDICES_FROM_CPU = {_aten.index.Tensor, _aten.index_put_.default, _aten._unsafe_index.Tensor}
_PRODUCTS = {getattr(_aten, name).default for name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "addmv")}
_TAKE_NUMBERS_FROM_CPU = {_aten.masked_fill_.Tensor, _aten.fill_.Tensor, _aten.index_put_.default}
"""Operations besides elementwise ones that accept a tensor without dimensions from the CPU."""


_place = cache(torch.device)


class _There(torch.Tensor):
    """A tensor on another device; `here` contains its numbers."""

    here: torch.Tensor
    index: int

    # Tensor's own runs Python twice for each function, and converts what moved to the CPU back to this class.
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, here: torch.Tensor, device: torch.device | None = None, *, requires_grad: bool = False) -> Any:
        if device is None:  # accelerate calls the type of a parameter
            return torch.nn.Parameter(here, requires_grad)
        # Leave inference mode: views created in it of tensors from outside would be of the wrong kind.
        if torch.is_inference_mode_enabled():
            with torch._C._InferenceMode(False):
                return cls.__new__(cls, here, device)
        layout = {"strides": here.stride(), "storage_offset": here.storage_offset(), "dtype": here.dtype}
        tensor: _There = torch.Tensor._make_wrapper_subclass(cls, here.size(), device=device, **layout)
        tensor.here, tensor.index = here, device.index or 0
        return tensor

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return _place(_reported[-1], self.index)

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return _reported[-1] == "cuda"

    def tolist(self) -> Any:
        return self.detach().here.tolist()

    def data_ptr(self) -> int:
        return self.detach().here.data_ptr()

    def __repr__(self, **_: Any) -> str:
        return f"{self.detach().here!r} on {self.device}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Everywhere(TorchDispatchMode):
    """Handles calls that name a device without having a tensor there: new tensors, and moved ones."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and turning the compiler off takes longer than many an operation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    traits = _traits(func)
    if traits.decompose is not None:
        # Inference mode passes some operations whole that are decomposed otherwise.
        with _Everywhere():
            return traits.decompose(*args, **kwargs)
    tensors = _tensors([*args, *kwargs.values()] if kwargs else args)
    there = [tensor for tensor in tensors if isinstance(tensor, _There)]
    place = kwargs.get("device") or (_place(KIND, there[0].index) if there else None)
    is_there = place is not None and place.type in (KIND, *_reported)
    if is_there:
        _refuse_what_a_gpu_refuses(func, args, kwargs, traits)
    if there and not traits.copies:
        index = there[0].index
        if len(there) < len(tensors) or any(tensor.index != index for tensor in there):
            _refuse_mixtures(func, args, kwargs, tensors, traits)
    named = {name: _bring(value) for name, value in kwargs.items()} if kwargs else kwargs
    found = func(*[_bring(value) for value in args], **named)
    if there and traits.mutates and found is not None:
        return kwargs.get("out", args[0])
    return _send(found, _place(KIND, place.index or 0)) if is_there else found


def _refuse_mixtures(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[torch.Tensor], traits: _Traits
) -> None:
    """Raise if an operation takes tensors of several devices, apart from those that CUDA accepts.

    These are numbers (tensors without dimensions) of the CPU in elementwise operations, and indices.
    """
    own = tensors
    if func in _TAKE_INDICES_FROM_CPU:
        own = _tensors([args[0], *args[2:], *kwargs.values()])
        indices = {str(tensor.device) for tensor in _tensors([args[1]]) if isinstance(tensor, _There)}
        if indices - {str(args[0].device)}:
            raise RuntimeError(f"{func}: indices should be on the CPU or on {args[0].device}, but are on {indices}")
    target = kwargs.get("out", args[0]) if traits.mutates else None
    takes_numbers = traits.elementwise or func in _TAKE_NUMBERS_FROM_CPU
    places = {str(tensor.device) for tensor in own if tensor.dim() > 0 or not takes_numbers or tensor is target}
    places |= {str(tensor.device) for tensor in own if isinstance(tensor, _There)}
    if len(places) > 1:
        raise RuntimeError(f"{func}: expected all tensors to be on the same device, but found {sorted(places)}")


def _refuse_what_a_gpu_refuses(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], traits: _Traits) -> None:
    """Raise for operations that CUDA lacks, products of integers, and the CPU's random numbers."""
    if not traits.on_gpus:
        raise NotImplementedError(f"{func}: torch has no CUDA kernel for it")
    if traits.is_product and not (args[0].is_floating_point() or args[0].is_complex()):
        raise RuntimeError(f"{func}: not implemented for {args[0].dtype} on CUDA")
    generator = kwargs.get("generator")
    if generator is not None and not traits.copies:
        raise RuntimeError(f"{func}: expected a generator of the tensor's device, but found {generator.device}")


@dataclass(frozen=True, slots=True)
class _Traits:
    """Properties of an operation.

    Attributes:
        decompose: Runs it as a series of others; None if it cannot be decomposed.
        mutates: Whether it mutates its arguments.
        elementwise: Whether it computes each element separately.
        copies: Whether it copies tensors between devices.
        is_product: Whether it multiplies matrices or vectors.
        on_gpus: Whether torch has a CUDA kernel for it; True if torch was built without CUDA, which does not know.
    """

    decompose: Callable[..., Any] | None
    mutates: bool
    elementwise: bool
    copies: bool
    is_product: bool
    on_gpus: bool


@cache
def _traits(func: Any) -> _Traits:
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    return _Traits(
        _decomposition(func),
        func._schema.is_mutable,
        torch.Tag.pointwise in func.tags,
        func in _COPIES,
        func in _PRODUCTS,
        not torch.backends.cuda.is_built() or has_kernel(func.name(), "CUDA") or not has_kernel(func.name(), "CPU"),
    )


def _decomposition(func: Any) -> Callable[..., Any] | None:
    """The kernel that devices have too, and otherwise torch's decomposition in Python, which takes longer."""
    key = DispatchKey.CompositeImplicitAutograd
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key):
        return partial(func._op_dk, key)
    return func.decompose if func._can_decompose() else None


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
    return torch.device("cpu") if isinstance(value, torch.device) and value.type in (KIND, *_reported) else value


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


class _Renamed(TorchFunctionMode):
    """Translates the device "cuda" to KIND before torch looks for a driver."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        moves = func is torch.Tensor.to or func is torch.Tensor.cuda
        if func is torch.Tensor.cuda:
            func, args = torch.Tensor.to, (args[0], *(args[1:] or ("cuda",)))
        if kwargs:
            kwargs = {name: _renamed(value, is_device=name == "device") for name, value in kwargs.items()}
        if moves or any(type(value) is torch.device for value in args):
            args = [_renamed(value, is_device=moves) for value in args]
        return func(*args, **kwargs) if kwargs else func(*args)


def _renamed(value: Any, *, is_device: bool) -> Any:
    """A device of type "cuda", its name, or the index of a GPU as the same of KIND; all else unchanged."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device(KIND, value.index or 0)
    if is_device and isinstance(value, str) and value.partition(":")[0] == "cuda":
        return torch.device(KIND, int(value.partition(":")[2] or 0))
    return torch.device(KIND, value) if is_device and type(value) is int else value


@contextmanager
def gpus(*, memory: int = 2**34, without: Sequence[torch.dtype] = ()) -> Iterator[tuple[torch.device, torch.device]]:
    """Temporarily simulate two GPUs of type "cuda", so that code for CUDA runs too.

    Only for the caller's thread, in which transformers therefore loads weights.

    Args:
        memory: Bytes of each.
        without: Number formats that they lack.
    """
    states: dict[str, torch.Tensor] = {}

    def rng_state(device: Any = "cuda") -> torch.Tensor:
        return states.get(str(device), torch.zeros(16, dtype=torch.uint8))

    def set_rng_state(state: torch.Tensor, device: Any = "cuda") -> None:
        if state.device.type != "cpu":
            raise TypeError("a random state has to be on the CPU")
        states[str(device)] = state.clone()

    fakes: dict[str, Any] = {
        **{name: lambda *_, **__: None for name in ("_lazy_init", "synchronize", "empty_cache", "set_device")},
        **{name: lambda *_, **__: None for name in ("reset_peak_memory_stats", "manual_seed_all", "manual_seed")},
        **{name: lambda *_, **__: True for name in ("is_available", "is_bf16_supported", "is_initialized")},
        **{name: lambda *_, **__: 0 for name in ("current_device", "memory_reserved", "memory_allocated")},
        "max_memory_allocated": lambda *_: 2**20,
        "device_count": lambda: 2,
        "device": lambda *_: ExitStack(),
        "get_device_name": lambda *_: "simulated GPU",
        "get_device_capability": lambda *_: (8, 0),
        "get_device_properties": lambda *_: SimpleNamespace(
            total_memory=memory, name="simulated GPU", major=8, minor=0
        ),
        "mem_get_info": lambda *_: (memory, memory),
        "get_rng_state": rng_state,
        "set_rng_state": set_rng_state,
    }
    with ExitStack() as stack:
        for name, fake in fakes.items():
            stack.enter_context(patch.object(torch.cuda, name, fake))
        stream = SimpleNamespace(is_capturing=lambda: False)
        stack.enter_context(patch.object(torch.accelerator, "current_stream", lambda *_: stream))
        stack.enter_context(patch.dict(os.environ, HF_DEACTIVATE_ASYNC_LOAD="1"))
        stack.enter_context(other_devices(without=without))
        stack.enter_context(_Renamed())
        _reported.append("cuda")
        stack.callback(_reported.pop)
        yield torch.device("cuda", 0), torch.device("cuda", 1)


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
        there = any(isinstance(tensor, _There) for tensor in _tensors([*args, *(kwargs or {}).values()]))
        home = func in _COPIES and (kwargs or {}).get("device", args[0].device).type != KIND
        masks = func in _TAKE_INDICES_FROM_CPU and any(
            tensor.dtype == torch.bool and tensor.device.type == KIND for tensor in _tensors(args[1])
        )
        self.count += there and (func in _WAITS or home or masks)
        return func(*args, **(kwargs or {}))
