"""Where a decoder-only model keeps what editors change, found by running it, never by the names of its parts.

One token is sent through the model and the linear layers of each block are watched: the layers that read one and the
same tensor first are the attention's projections; the last layer to run is the MLP's down-projection. This holds for
fused projections (GPT-2, Falcon), for attention and MLP side by side (GPT-J, Phi) and for Llama and its kin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from kgedit.errors import ModelError


@dataclass(frozen=True, slots=True)
class Block:
    """One decoder block.

    Attributes:
        module: The block itself.
        down_projection: The last linear layer of its MLP.
        query_value: Full names, within the model, of the query and value projections; one name where they are fused.
    """

    module: nn.Module
    down_projection: Any
    query_value: tuple[str, ...]

    @property
    def inner_width(self) -> int:
        """Inputs of the down-projection."""
        weight = self.down_projection.weight
        width: int = weight.shape[0] if isinstance(self.down_projection, Conv1D) else weight.shape[1]
        return width


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    layer: nn.Module
    seen: torch.Tensor


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a matrix product: nn.Linear, or GPT-2's Conv1D, whose weights are in x out."""
    return isinstance(module, (nn.Linear, Conv1D))


def find_blocks(model: Any) -> tuple[Block, ...]:
    """The decoder blocks of a causal language model, lowest first.

    Raises:
        ModelError: if the model is not built of equal blocks of linear layers.
    """
    modules = _block_modules(model)
    calls = _watch(model, modules)
    return tuple(
        Block(module, _down_projection(model, called), _query_value(called))
        for module, called in zip(modules, calls, strict=True)
    )


def _block_modules(model: Any) -> list[nn.Module]:
    depth = model.config.get_text_config().num_hidden_layers
    for _, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return list(module)
    raise ModelError(
        f"{type(model).__name__} has no list of {depth} decoder blocks, so editors that change weights cannot work on "
        "it. Use a decoder-only model, or the method 'rag', which leaves weights alone."
    )


def _watch(model: Any, blocks: list[nn.Module]) -> list[list[_Call]]:
    """Linear layers of each block in the order in which one forward pass calls them."""
    names = {module: name for name, module in model.named_modules()}
    calls: list[list[_Call]] = [[] for _ in blocks]
    handles = []
    for index, block in enumerate(blocks):
        for layer in block.modules():
            if is_linear(layer):

                def note(module: nn.Module, inputs: tuple[torch.Tensor, ...], _: Any, index: int = index) -> None:
                    calls[index].append(_Call(names[module], module, inputs[0]))

                handles.append(layer.register_forward_hook(note))
    try:
        with torch.no_grad():
            model(torch.zeros((1, 1), dtype=torch.long, device=model.device), use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    if not all(calls):
        raise ModelError(f"Some blocks of {type(model).__name__} hold no linear layers; editors cannot work on it.")
    return calls


def _down_projection(model: Any, calls: list[_Call]) -> nn.Module:
    last = calls[-1].layer
    width = last.out_features if isinstance(last, nn.Linear) else last.nf
    hidden = model.config.get_text_config().hidden_size
    if width != hidden:
        raise ModelError(
            f"The last layer of a block of {type(model).__name__} has width {width}, not {hidden}: no single MLP "
            "down-projection (a mixture of experts?). Use the method 'lora' or 'rag'."
        )
    return last


def _query_value(calls: list[_Call]) -> tuple[str, ...]:
    """Of the first group of layers with one parent and one input, first and last: query, key, value in all models."""
    first = calls[0]
    parent = first.name.rpartition(".")[0]
    group = [call.name for call in calls if call.seen is first.seen and call.name.rpartition(".")[0] == parent]
    return (group[0],) if len(group) == 1 else (group[0], group[-1])
