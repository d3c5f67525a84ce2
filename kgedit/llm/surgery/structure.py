"""Finds the layers of a decoder-only model that editors change, by running it and never by the names of its parts.

One token is sent through the model while the modules of each block are observed. The first linear layers that read the
same tensor are the attention's projections, and the last other one that their module runs is its output projection; the
last linear layer of a block is the MLP's down-projection, and those in between are its up-projection and gate. This
works for fused projections (GPT-2, Falcon), for parallel attention and MLP (GPT-J, Phi) and for Llama-like models.

If an MLP is a mixture of experts (Mixtral, Qwen-MoE), no token passes through all of it. Then the layers that every
token passes are used: those of the shared expert, or of the attention if no expert is shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from kgedit.errors import ModelError
from kgedit.llm.surgery.matrices import input_device


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer: nn.Linear, or GPT-2's Conv1D.

    Attributes:
        name: Full name in the model.
        layer: The module.
    """

    name: str
    layer: Any

    @property
    def rows_are_inputs(self) -> bool:
        """Whether the weight is stored in x out (Conv1D), not out x in."""
        return isinstance(self.layer, Conv1D)

    @property
    def in_width(self) -> int:
        """Number of inputs."""
        return int(self.layer.nx if self.rows_are_inputs else self.layer.in_features)

    @property
    def out_width(self) -> int:
        """Number of outputs."""
        return int(self.layer.nf if self.rows_are_inputs else self.layer.out_features)


@dataclass(frozen=True, slots=True)
class Block:
    """One decoder block.

    Attributes:
        module: Module of the block.
        attention_inputs: Query, key and value projections; one layer if they are fused.
        up: The MLP's up-projection, including the gate if they are fused. None in a mixture without a shared expert.
        gate: The layer whose output goes through the activation and multiplies that of `up`; None if there is none.
        down: The MLP's down-projection, the last linear layer of the block. In a mixture of experts that of the shared
            expert; without a shared expert the attention's output projection, the last layer that every token passes.
        norm_after_mlp: The norm that the down-projection's output goes through before it is added (Gemma 2 and 3).
        mixture: Whether the MLP is a mixture of experts, so that `down` computes only a part of the MLP's output.
        attention_output: The attention's output projection; None if none was found.
    """

    module: nn.Module
    attention_inputs: tuple[Linear, ...]
    up: Linear | None
    gate: Linear | None
    down: Linear
    norm_after_mlp: nn.Module | None
    mixture: bool = False
    attention_output: Linear | None = None

    @property
    def down_projection(self) -> Any:
        """The module of `down`."""
        return self.down.layer

    @property
    def query_value(self) -> tuple[str, ...]:
        """Full names of the query and value projections; one name if they are fused."""
        names = [linear.name for linear in self.attention_inputs]
        return (names[0],) if len(names) == 1 else (names[0], names[-1])

    @property
    def inner_width(self) -> int:
        """Number of inputs of the down-projection."""
        return self.down.in_width


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    module: nn.Module
    seen: torch.Tensor | None
    given: torch.Tensor | None

    @property
    def parent(self) -> str:
        return self.name.rpartition(".")[0]


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a matrix product: nn.Linear, or GPT-2's Conv1D, whose weights are in x out."""
    return isinstance(module, (nn.Linear, Conv1D))


def is_norm(module: nn.Module) -> bool:
    """Whether a module scales vectors element by element: LayerNorm, RMSNorm, a norm of queries or keys."""
    own = dict(module.named_parameters(recurse=False))
    return "weight" in own and own["weight"].dim() == 1 and not any(True for _ in module.children())


def find_blocks(model: Any) -> tuple[Block, ...]:
    """Find the decoder blocks of a causal language model, lowest first.

    Raises:
        ModelError: if the model does not consist of equal blocks of linear layers.
    """
    modules = _block_modules(model)
    calls = _watch(model, modules)
    return tuple(_block(model, module, called) for module, called in zip(modules, calls, strict=True))


def _width(model: Any) -> int:
    return int(model.config.get_text_config().hidden_size)


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
    """Record the calls of the leaf modules of each block, in order."""
    names = {module: name for name, module in model.named_modules()}
    inside: list[list[_Call]] = [[] for _ in blocks]

    def note(calls: list[_Call], module: nn.Module) -> Any:
        def hook(_: Any, inputs: tuple[Any, ...], output: Any) -> None:
            seen = inputs[0] if inputs and isinstance(inputs[0], torch.Tensor) else None
            given = output if isinstance(output, torch.Tensor) else None
            calls.append(_Call(names[module], module, seen, given))

        return hook

    leaves = [
        (calls, module)
        for calls, block in zip(inside, blocks, strict=True)
        for module in block.modules()
        if not any(True for _ in module.children())
    ]
    with hooks(*(leaf.register_forward_hook(note(calls, leaf)) for calls, leaf in leaves)), torch.no_grad():
        # One token is enough: every block calls all its layers for it.
        model(torch.zeros((1, 1), dtype=torch.long, device=input_device(model)), use_cache=False)
    if not all(any(is_linear(call.module) for call in called) for called in inside):
        raise ModelError(f"Some blocks of {type(model).__name__} hold no linear layers; editors cannot work on it.")
    return inside


def _block(model: Any, module: nn.Module, calls: list[_Call]) -> Block:
    routed = _routed_layers(module, calls)
    mixture = bool(routed) or _stacks_experts(module)
    linear = [call for call in calls if is_linear(call.module) and call.module not in routed]
    first = linear[0]
    # Query, key and value projections read the same tensor; the attention's other layers read what it made of it.
    inputs = [call for call in linear if call.seen is first.seen and call.parent == first.parent]
    own = [call for call in linear if call.parent == first.parent and call not in inputs]
    if mixture:
        return _mixture_block(
            model, module, inputs, own, [call for call in linear if call not in (*inputs, *own)], calls
        )
    down = linear[-1]
    _check_down(model, Linear(down.name, down.module))
    rest = [call for call in linear if call not in inputs and call not in own and call is not down]
    if not own or not rest:
        raise ModelError(f"{type(model).__name__} has blocks without attention or MLP; editors cannot work on it.")
    up, gate = _up_and_gate(rest, calls)
    after = [call.module for call in calls if call.seen is down.given and _is_norm(call.module, _width(model))]
    return Block(
        module=module,
        attention_inputs=tuple(Linear(call.name, call.module) for call in inputs),
        up=Linear(up.name, up.module),
        gate=None if gate is None else Linear(gate.name, gate.module),
        down=Linear(down.name, down.module),
        norm_after_mlp=after[0] if after else None,
        attention_output=Linear(own[-1].name, own[-1].module),
    )


def _mixture_block(
    model: Any, module: nn.Module, inputs: list[_Call], own: list[_Call], rest: list[_Call], calls: list[_Call]
) -> Block:
    """Build a block with experts from the linear layers that every token passes.

    Args:
        inputs: Input projections of the attention.
        own: Other layers of the attention.
        rest: Layers of a shared expert, with its gate.
    """
    width = _width(model)
    downs = [call for call in rest if Linear(call.name, call.module).out_width == width]
    down = (downs or own)[-1:]
    if not down:
        raise ModelError(f"{type(model).__name__} has blocks without attention; editors cannot work on it.")
    _check_down(model, Linear(down[0].name, down[0].module))
    shared = [call for call in rest if call.parent == down[0].parent and call is not down[0]] if downs else []
    up, gate = _up_and_gate(shared, calls) if shared else (None, None)
    return Block(
        module=module,
        attention_inputs=tuple(Linear(call.name, call.module) for call in inputs),
        up=None if up is None else Linear(up.name, up.module),
        gate=None if gate is None else Linear(gate.name, gate.module),
        down=Linear(down[0].name, down[0].module),
        norm_after_mlp=None,
        mixture=True,
        attention_output=Linear(own[-1].name, own[-1].module) if own else None,
    )


def _stacks_experts(module: nn.Module) -> bool:
    """Whether a block has three-dimensional weights, one matrix per expert; convolutions do not count."""
    parts = [part for part in module.modules() if not isinstance(part, nn.Conv1d)]
    return any(parameter.dim() > 2 for part in parts for parameter in part.parameters(recurse=False))


def _routed_layers(module: nn.Module, calls: list[_Call]) -> set[nn.Module]:
    """Linear layers of experts that are modules: those in a module list of which a token passed only some."""
    called = {call.module for call in calls}
    return {
        layer
        for group in module.modules()
        if isinstance(group, nn.ModuleList)
        and any(is_linear(layer) and layer not in called for layer in group.modules())
        for layer in group.modules()
        if is_linear(layer)
    }


def _up_and_gate(layers: list[_Call], calls: list[_Call]) -> tuple[_Call, _Call | None]:
    """Split into up-projection and gate: of two layers with the same input, the gate precedes an activation."""
    if len(layers) == 1 or layers[-2].seen is not layers[-1].seen:
        return layers[-1], None
    read = [call.seen for call in calls if not is_linear(call.module) and call.seen is not None]
    one, two = layers[-2:]
    gated = any(seen is two.given for seen in read)
    return (one, two) if gated else (two, one)


def _check_down(model: Any, down: Linear) -> None:
    if down.out_width != _width(model):
        raise ModelError(
            f"The last layer of a block of {type(model).__name__} has width {down.out_width}, not {_width(model)}: no "
            "single MLP down-projection (a mixture of experts?). Use the method 'rag', which leaves weights alone."
        )


def _is_norm(module: nn.Module, width: int) -> bool:
    """Whether a leaf module scales a vector of the model's width element by element."""
    own = dict(module.named_parameters(recurse=False))
    return "weight" in own and not is_linear(module) and tuple(own["weight"].shape) == (width,)


def hidden_of(output: Any) -> torch.Tensor:
    """Hidden state in a block's output: a tensor, or the first element of a tuple (GPT-J)."""
    hidden: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return hidden


def with_hidden(output: Any, hidden: torch.Tensor) -> Any:
    """Copy of a block's output with another hidden state."""
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden


@contextmanager
def hooks(*handles: Any) -> Iterator[None]:
    """Remove hooks when the context ends, also after errors."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def by_row(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Reshape a tensor to rows x length x width."""
    return tensor.reshape(rows, -1, tensor.shape[-1])


def at(tensor: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Select one position of each row: rows x width, on the tensor's device."""
    rows = torch.arange(len(columns), device=tensor.device)
    found: torch.Tensor = by_row(tensor, len(columns))[rows, columns.to(tensor.device)]
    return found


def put(
    output: torch.Tensor, values: torch.Tensor, *, rows: torch.Tensor, columns: torch.Tensor, count: int
) -> torch.Tensor:
    """Return a copy of a layer's output with values replaced at some positions; the rest is bitwise unchanged.

    Args:
        values: One vector per position, of the output's width.
        rows: Row of each position.
        columns: Column of each position.
        count: Number of rows of the whole batch.
    """
    written = by_row(output, count).clone()
    written[rows.to(output.device), columns.to(output.device)] = values.to(output)
    return written.reshape(output.shape)
