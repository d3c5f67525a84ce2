"""Passes through the part of a model above one block: repeated forward passes, and factors of gradients.

The model's own forward pass is used, with the blocks below replaced by the identity, so masks, rotary positions, final
norm and head are those of the model; what is below is computed once. Tokens to the left of the first changing position
are kept as a key-value cache, because attention is causal.

The gradient of a linear layer's weight is the sum over tokens of the layer's input times the gradient of the loss with
respect to its output. Editors that work on these rank-one factors (UltraEdit, MEND, CrispEdit) never need the sum.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kgedit.llm.language_model import LanguageModel, kept_cache
from kgedit.llm.surgery.layers import MlpMatrix
from kgedit.llm.surgery.onednn import frozen_products
from kgedit.llm.surgery.structure import by_row, hooks
from kgedit.llm.training import TargetBatch, gradients, target_loss


class _ReachedError(Exception):
    """Passes the input of the edited block out of the forward pass."""


class ForwardAbove:
    """Callable that returns the logits at the targets' positions, with gradients only from the lowest computed block
    up.

    Args:
        model: The model; its blocks below `layer` must not change during use.
        layer: Index of the lowest block that is computed in each call.
        targets: Input of the model.
        start: Number of positions on the left whose hidden states do not change in any block; 0 if weights change.
        picks: Mask of needed logits among the last ``targets.last`` positions, rows x positions; None means all.
    """

    def __init__(
        self,
        model: LanguageModel,
        layer: int,
        targets: TargetBatch,
        *,
        start: int,
        picks: torch.Tensor | None = None,
    ) -> None:
        self._model, self._last = model, targets.last
        self._pick(picks)
        self._mask, self._ids, self._cache = targets.mask, targets.ids, None
        self._ends: torch.Tensor | None = targets.ends
        self.hidden: torch.Tensor | None = None
        self.wrapped = False
        if start:
            with torch.no_grad():
                left = model.forward(targets.ids[:, :start], targets.mask[:, :start], last=1, keep=True)
            self._ids, self._cache, self._ends = targets.ids[:, start:], kept_cache(left), None
        if layer:
            self.hidden, self.wrapped = _hidden_below(model, layer, self)

    def __call__(self) -> torch.Tensor:
        """Logits, rows x ``targets.last`` x vocabulary; with picks, picked positions x vocabulary, row by row."""
        cache = _copy_of(self._cache)
        with hooks(*self._picking()):
            logits: torch.Tensor = self._model.forward(
                self._ids, self._mask, last=self._last, cache=cache, keep=cache is not None, ends=self._ends
            ).logits
        return logits if self._picks is None else logits[:, 0]

    def _pick(self, picks: torch.Tensor | None) -> None:
        """Set the picks, also as indexes: a mask makes the host wait for the device at each use."""
        self._picks = picks
        self._picked = None if picks is None else picks.nonzero(as_tuple=True)

    def _picking(self) -> list[Any]:
        """Hook that passes only the picked positions to the head, as rows of one position."""
        if self._picks is None:
            return []

        def pick(_: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            assert self._picked is not None
            rows, columns = (index.to(inputs[0].device) for index in self._picked)
            return (inputs[0][:, -self._last :][rows, columns].unsqueeze(1), *inputs[1:])

        return [self._model.module.get_output_embeddings().register_forward_pre_hook(pick)]

    def read_and_written(self, layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Input and output of a linear layer in such a pass, in its own format; nothing above it is computed."""
        return _up_to(layer, self)

    def select_rows(self, rows: torch.Tensor) -> None:
        """Keep only the rows with the given indexes."""
        rows = rows.cpu()  # indexes on the CPU work with tensors on any GPU
        self._ids, self._mask = self._ids[rows], self._mask[rows]
        if self._ends is not None:
            self._ends = self._ends[rows]
        if self._picks is not None:
            self._pick(self._picks[rows])
        if self.hidden is not None:
            self.hidden = self.hidden[rows]
        if self._cache is not None:
            self._cache.batch_select_indices(rows)


@contextmanager
def forward_above(
    model: LanguageModel, layer: int, targets: TargetBatch, *, start: int = 0, picks: torch.Tensor | None = None
) -> Iterator[ForwardAbove]:
    """Context manager with a `ForwardAbove` that is valid within the context. Arguments: see `ForwardAbove`."""
    with frozen_products(model):
        forward = ForwardAbove(model, layer, targets, start=start, picks=picks)
        with _only_above(model, layer, forward):
            yield forward


@contextmanager
def _only_above(model: LanguageModel, layer: int, forward: ForwardAbove) -> Iterator[None]:
    """Replace the blocks below `layer` by the identity, and give that block its precomputed input."""
    if layer == 0:
        yield
        return
    lower = [block.module for block in model.blocks[:layer]]
    own = [module.__dict__.get("forward") for module in lower]
    handle = model.blocks[layer].module.register_forward_pre_hook(_substitute(forward), with_kwargs=True)
    try:
        for module in lower:
            module.forward = _pass_through(forward.wrapped)
        yield
    finally:
        handle.remove()
        for module, before in zip(lower, own, strict=True):
            # accelerate's device maps set a separate forward on the instance.
            if before is None:
                del module.forward
            else:
                module.forward = before


def read_and_written(
    model: LanguageModel, layer: Any, ids: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Input and output of a linear layer, rows x length x width in float32; nothing above it is computed."""
    with frozen_products(model):
        inputs, outputs = _up_to(layer, lambda: model.forward(ids, mask, last=1))
    return by_row(inputs, len(ids)).float(), by_row(outputs, len(ids)).float()


def _up_to(layer: Any, forward: Callable[[], Any]) -> tuple[torch.Tensor, torch.Tensor]:
    def stop(_: Any, args: tuple[Any, ...], output: torch.Tensor) -> None:
        # An exception is the only way to end a forward pass early, whatever the model.
        raise _ReachedError(args[0], output)

    with hooks(layer.register_forward_hook(stop)), torch.no_grad():
        try:
            forward()
        except _ReachedError as reached:
            inputs, outputs = reached.args
            return inputs, outputs
    raise RuntimeError(f"the forward pass never reached {layer}")


def _copy_of(cache: Any) -> Any:
    """Copy of a cache that can grow without changing the original: tensors are shared; growing replaces them."""
    if cache is None:
        return None
    other = copy.copy(cache)
    other.layers = [copy.copy(layer) for layer in cache.layers]
    return other


def _hidden_below(model: LanguageModel, layer: int, forward: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, bool]:
    """The input of block `layer`, and whether blocks return their output in a tuple (GPT-J does)."""
    wrapped = False

    def look(_: Any, __: Any, output: Any) -> None:
        nonlocal wrapped
        wrapped = isinstance(output, tuple)

    def stop(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        raise _ReachedError(args[0] if args else kwargs["hidden_states"])

    first = model.blocks[0].module.register_forward_hook(look)
    last = model.blocks[layer].module.register_forward_pre_hook(stop, with_kwargs=True)
    with hooks(first, last), torch.no_grad():
        try:
            forward()
        except _ReachedError as reached:
            return reached.args[0], wrapped
    raise RuntimeError(f"the forward pass never reached block {layer}")


def _substitute(forward: ForwardAbove) -> Callable[..., Any]:
    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args:
            return (forward.hidden, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": forward.hidden}

    return hook


def _pass_through(wrapped: bool) -> Callable[..., Any]:
    def forward(hidden_states: Any, *_: Any, **__: Any) -> Any:
        return (hidden_states, None) if wrapped else hidden_states

    return forward


@dataclass(frozen=True, slots=True)
class GradientFactors:
    """Gradient factors of one layer, in float32.

    Attributes:
        inputs: rows x length x inputs.
        gradients: rows x length x outputs; gradients of the sum over rows of each row's loss.

    Both are on the device of the tokens, whatever the layer's device.
    """

    inputs: torch.Tensor
    gradients: torch.Tensor


def gradient_factors(
    model: LanguageModel, matrices: Sequence[MlpMatrix], targets: TargetBatch
) -> tuple[list[GradientFactors], float]:
    """Compute the factors of linear layers, by a backward pass that ends at the lowest of them.

    Args:
        matrices: The layers, from the lowest block upwards.

    Returns:
        The factors of each layer, in the same order, and the mean loss over rows.

    Raises:
        torch.OutOfMemoryError: if a single row does not fit into the device's memory.
    """
    rows = len(targets.ids)

    def work(at_once: int) -> tuple[list[GradientFactors], float]:
        parts = [targets.rows(start, start + at_once) for start in range(0, rows, at_once)]
        found = [_factors_of_part(model, matrices, part) for part in parts]
        losses = [loss * len(part.ids) / rows for (_, loss), part in zip(found, parts, strict=True)]
        return [_joined(factors) for factors in zip(*(factors for factors, _ in found), strict=True)], sum(losses)

    return model.trained_at_once.run(rows, work)


def _joined(parts: Sequence[GradientFactors]) -> GradientFactors:
    """One layer's factors for all rows."""
    if len(parts) == 1:
        return parts[0]
    return GradientFactors(torch.cat([part.inputs for part in parts]), torch.cat([part.gradients for part in parts]))


def _factors_of_part(
    model: LanguageModel, matrices: Sequence[MlpMatrix], targets: TargetBatch
) -> tuple[list[GradientFactors], float]:
    inputs: dict[str, torch.Tensor] = {}
    outputs: dict[str, torch.Tensor] = {}

    def record(matrix: MlpMatrix) -> Any:
        def hook(_: Any, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            # Nothing below the lowest layer is trained, so the graph begins at that layer's output.
            written = output if output.requires_grad else output.detach().requires_grad_()
            inputs[matrix.name] = given[0].detach().to(targets.ids.device).float()
            outputs[matrix.name] = written
            return written.clone()  # Falcon adds to it in place

        return hook

    with forward_above(model, matrices[0].block, targets) as logits, torch.enable_grad():
        with hooks(*(matrix.module.register_forward_hook(record(matrix)) for matrix in matrices)):
            loss = target_loss(logits(), targets)
        found = gradients(model, loss * len(targets.ids), [outputs[matrix.name] for matrix in matrices])
    rows = len(targets.ids)
    factors = [
        GradientFactors(by_row(inputs[matrix.name], rows), by_row(gradient.to(targets.ids.device).float(), rows))
        for matrix, gradient in zip(matrices, found, strict=True)
    ]
    return factors, loss.item()
