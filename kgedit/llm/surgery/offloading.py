"""Weights that accelerate keeps in main memory or on disk and loads for each forward pass (`--max-memory`).

Between passes such a parameter is on torch's meta device, with a shape but no values; the hook of its layer has access
to the values. A layer changed by an editor remains loaded from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def input_device(module: Any) -> torch.device:
    """Device on which a model expects token ids."""
    own: torch.device = module.device
    if own.type != "meta":
        return own
    hook = _offloading_hook(module.get_input_embeddings())
    return own if hook is None else torch.device(hook.execution_device)


def layer_device(layer: nn.Module) -> torch.device:
    """Device on which a layer computes, whether or not its weight is loaded."""
    hook = _offloading_hook(layer)
    weight: torch.Tensor = layer.weight  # type: ignore[assignment]
    return weight.device if hook is None else torch.device(hook.execution_device)


def is_offloaded(layer: nn.Module) -> bool:
    """Whether a layer's parameters are loaded for each forward pass."""
    return _offloading_hook(layer) is not None


def keep_loaded(layer: nn.Module) -> None:
    """Keep an offloaded layer's parameters loaded on its device; no effect on other layers."""
    hook = _offloading_hook(layer)
    if hook is not None:
        hook.pre_forward(layer)
        hook.offload = False


def named_values(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Iterate over a model's state dict; offloaded entries are loaded into main memory one by one."""
    for name, tensor in module.state_dict().items():
        if tensor.device.type != "meta":
            yield name, tensor
            continue
        owner, _, own_name = name.rpartition(".")
        hook = _offloading_hook(module.get_submodule(owner))
        yield name, tensor if hook is None else hook.weights_map[own_name]


def _offloading_hook(layer: nn.Module) -> Any:
    """Hook of accelerate that loads a layer's parameters; None if they are always loaded."""
    hook = getattr(layer, "_hf_hook", None)
    for one in getattr(hook, "hooks", (hook,)):
        if getattr(one, "offload", False):
            return one
    return None
