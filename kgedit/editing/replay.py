"""The part of a model above one block, run again and again: what lies below is computed once.

The model's own forward pass is used, with the blocks below switched to handing their input on, so masks, rotary
positions, final norm and head stay whatever the model makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from kgedit.editing.places import by_row
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.targets import Lines


class _ReachedError(Exception):
    """Carries the input of the edited block out of the forward pass."""


@contextmanager
def replay_above(model: LanguageModel, layer: int, lines: Lines) -> Iterator[Callable[[], torch.Tensor]]:
    """Within the context, calls give the logits at the targets' places, with gradients only from block `layer` up.

    Args:
        model: Its blocks below `layer` must not change meanwhile.
        layer: Index of the lowest block that is computed at each call.
        lines: What the model reads.
    """

    def forward() -> torch.Tensor:
        logits: torch.Tensor = model.forward(lines.ids, lines.mask, last=lines.last, ends=lines.ends).logits
        return logits

    if layer == 0:
        yield forward
        return
    hidden, wrapped = _hidden_below(model, layer, forward)
    lower = [block.module for block in model.blocks[:layer]]
    own = [module.__dict__.get("forward") for module in lower]
    handle = model.blocks[layer].module.register_forward_pre_hook(_substitute(hidden), with_kwargs=True)
    try:
        for module in lower:
            module.forward = _hand_on(wrapped)
        yield forward
    finally:
        handle.remove()
        for module, before in zip(lower, own, strict=True):
            # accelerate's device maps put a forward of their own on the instance.
            if before is None:
                del module.forward
            else:
                module.forward = before


def projection_inputs(model: LanguageModel, layer: int, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """What the down-projection of a block reads, rows x length x inputs in float32; nothing above it is computed."""

    def stop(_: Any, args: tuple[Any, ...]) -> None:
        raise _ReachedError(args[0])

    handle = model.blocks[layer].down_projection.register_forward_pre_hook(stop)
    try:
        with torch.no_grad():
            model.forward(ids, mask, last=1)
    except _ReachedError as reached:
        return by_row(reached.args[0], len(ids)).float()
    finally:
        handle.remove()
    raise RuntimeError(f"the forward pass never reached the down-projection of block {layer}")


def _hidden_below(model: LanguageModel, layer: int, forward: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, bool]:
    """The input of block `layer`, and whether blocks return their output in a tuple (GPT-J does)."""
    wrapped = False

    def look(_: Any, __: Any, output: Any) -> None:
        nonlocal wrapped
        wrapped = isinstance(output, tuple)

    def stop(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _ReachedError(args[0] if args else kwargs["hidden_states"])

    handles = [
        model.blocks[0].module.register_forward_hook(look),
        model.blocks[layer].module.register_forward_pre_hook(stop, with_kwargs=True),
    ]
    try:
        with torch.no_grad():
            forward()
    except _ReachedError as reached:
        return reached.args[0], wrapped
    finally:
        for handle in handles:
            handle.remove()
    raise RuntimeError(f"the forward pass never reached block {layer}")


def _substitute(hidden: torch.Tensor) -> Callable[..., Any]:
    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": hidden}

    return hook


def _hand_on(wrapped: bool) -> Callable[..., Any]:
    def forward(hidden_states: Any, *_: Any, **__: Any) -> Any:
        return (hidden_states, None) if wrapped else hidden_states

    return forward
