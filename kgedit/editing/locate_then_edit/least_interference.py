"""Adjusts each call's change so that the changes of all calls interfere least (SimIE), for any closed-form method.

With W_i the weights after call i and K_i the layer's inputs at all tokens of its edits, the weights minimise sum |(W -
W_i) K_i|^2 + lambda |W - W0|^2: the same least-squares problem as for edits, with W_i K_i as values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from kgedit.editing.locate_then_edit.accumulated_solve import AccumulatedSolve
from kgedit.editing.locate_then_edit.value_search import EditRequest
from kgedit.llm.devices import float64_device, in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.llm.surgery.structure import by_row, hooks

_MOST_TOKENS = 4096
"""Maximum tokens of a batch, because inputs of every edited layer at all of them are kept in float64."""


class LeastInterference:
    """The least-squares problems of some layers over all calls so far.

    Args:
        matrices: Edited matrices by layer.
        penalty: lambda.
    """

    def __init__(self, model: LanguageModel, matrices: Mapping[int, EditedMatrix], *, penalty: float) -> None:
        self._model, self._matrices, self._penalty = model, matrices, penalty
        self._solves: dict[int, AccumulatedSolve] = {}

    def bring(self, requests: Sequence[EditRequest], edit: Callable[[], None]) -> None:
        """Run an edit, and replace its change.

        Args:
            requests: The edits.
            edit: Function that changes the matrices; afterwards they contain the solution over all calls.
        """
        keys = self._keys(requests)
        before = {layer: matrix.weight.detach().clone() for layer, matrix in self._matrices.items()}
        read = {layer: matrix.products(keys[layer]) for layer, matrix in self._matrices.items()}
        edit()
        for layer, matrix in self._matrices.items():
            missing = matrix.products(keys[layer]) - read[layer]
            matrix.write(before[layer])
            matrix.add(self._solve(layer).add(missing, keys[layer]).T)

    def clear(self) -> None:
        """Remove all calls."""
        self._solves = {}

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return a copy of the problems."""
        found = {f"interference.{layer}": solve.matrix.clone() for layer, solve in self._solves.items()}
        return found | {f"interfering.{layer}": solve.waiting.clone() for layer, solve in self._solves.items()}

    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Load the result of `tensors`."""
        self._solves = {}
        for layer, matrix in self._matrices.items():
            if f"interference.{layer}" in tensors:
                own, waiting = (
                    tensors[f"{name}.{layer}"].to(float64_device(matrix.weight.device), copy=True)
                    for name in ("interference", "interfering")
                )
                self._solves[layer] = AccumulatedSolve.of(own, waiting)

    def _solve(self, layer: int) -> AccumulatedSolve:
        if layer not in self._solves:
            block, device = self._model.blocks[layer], self._matrices[layer].weight.device
            start = torch.eye(block.inner_width, dtype=torch.float64, device=float64_device(device)) / self._penalty
            self._solves[layer] = AccumulatedSolve(start)
        return self._solves[layer]

    def _keys(self, requests: Sequence[EditRequest]) -> dict[int, torch.Tensor]:
        """Inputs of each layer at all tokens of the bare prompts with their targets: inputs x tokens, float64."""
        rows = [[*request.prompts[0].ids, *request.target] for request in requests]
        size = max(1, _MOST_TOKENS // max(map(len, rows)))
        found: dict[int, list[torch.Tensor]] = {layer: [] for layer in self._matrices}

        def note(layer: int, mask: torch.Tensor) -> Callable[..., None]:
            def hook(_: object, inputs: tuple[torch.Tensor, ...]) -> None:
                seen = mask.to(inputs[0].device).bool()
                found[layer].append(in_float64(by_row(inputs[0].detach(), len(mask))[seen]))

            return hook

        for start in range(0, len(rows), size):
            ids, mask = self._model.pad_left(rows[start : start + size])
            handles = [
                self._model.blocks[layer].down_projection.register_forward_pre_hook(note(layer, mask))
                for layer in self._matrices
            ]
            with hooks(*handles), torch.no_grad():
                self._model.forward(ids, mask, last=1)
        return {
            layer: torch.cat(own).T.to(float64_device(self._matrices[layer].weight.device))
            for layer, own in found.items()
        }
