"""Options of the closed-form methods: SPHERE, NAS and least interference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import torch

from kgedit.editing.locate_then_edit.accumulated_solve import AccumulatedSolve
from kgedit.editing.locate_then_edit.value_search import EditRequest
from kgedit.llm.devices import float64_device, in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.llm.surgery.structure import by_row, hooks
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home

# Rows whose directions are evenly spread over the hypersphere make a stable matrix. A change along the directions that
# most rows share makes them less so; SPHERE removes a part of it.


def main_directions(weight: torch.Tensor, share: float) -> torch.Tensor:
    """Fewest principal directions of the normalised rows that hold a share of their second moment.

    Args:
        weight: Outputs x inputs, float64.
        share: Minimum share of the trace.

    Returns:
        Orthonormal columns, inputs x directions; at least one.
    """
    rows = weight / torch.linalg.vector_norm(weight, dim=1, keepdim=True).clamp(min=1e-12)
    _, lengths, directions = torch.linalg.svd(rows, full_matrices=False)
    held = lengths.square().cumsum(0) / lengths.square().sum()
    count = int((held < share).sum()) + 1
    main: torch.Tensor = directions[:count].T
    return main


def away_from_main_directions(
    change: torch.Tensor, weight: torch.Tensor, *, strength: float, share: float
) -> torch.Tensor:
    """Remove a part of a change along the main directions of a matrix: change (1 - strength U U^T).

    Args:
        change: Outputs x inputs, float64.
        weight: The matrix before the change, outputs x inputs, float64.
        strength: Share of the component along U that is removed.
        share: See `main_directions`.
    """
    main = main_directions(weight, share)
    kept: torch.Tensor = change - strength * (change @ main) @ main.T
    return kept


# Values grow from edit to edit if they are searched for in a previously edited model, and the weights grow with them;
# the norm of an MLP's output then carries no information about the edit.


_LONGEST = 2.0
"""Values with more than this multiple of the anchor's norm are dropped."""


@dataclass(frozen=True, slots=True)
class AnchoredValues:
    """Values after scaling.

    Attributes:
        wanted: Desired output of the block, edits x width; the current output for dropped edits.
        dropped: Whether each edit was dropped.
    """

    wanted: torch.Tensor
    dropped: torch.Tensor


def anchored(before: torch.Tensor, written: torch.Tensor, added: torch.Tensor, *, norm: float) -> AnchoredValues:
    """z = (h - v0) + norm * v* / |v*|, with v* = v0 + d; edits with |v*| above twice the norm are dropped.

    Args:
        before: h, the block's outputs, edits x width.
        written: v0, the MLP's contribution to them.
        added: d, the vectors found by the search.
        norm: a, the anchor.
    """
    values = written + added
    lengths = values.norm(dim=1, keepdim=True).clamp(min=1e-12)
    dropped = lengths.squeeze(1) > _LONGEST * norm
    scaled = before - written + norm * values / lengths
    return AnchoredValues(torch.where(dropped[:, None], before, scaled), dropped)


def pilot_cases(known: Sequence[KnownFact], count: int) -> list[Case]:
    """Turn known facts into edits, each to the next other answer of its relation, or of any relation if there is none.

    Relations of edit files often have one answer; facts without any other answer are omitted.
    """
    by_relation: dict[str, list[str]] = {}
    for fact in known:
        by_relation.setdefault(fact.fact.property, []).append(fact.answer)
    every = [fact.answer for fact in known]
    seen = dict.fromkeys(by_relation, 0)
    cases = []
    for index, fact in enumerate(known[:count]):
        seen[fact.fact.property] += 1
        answer = _next_other(by_relation[fact.fact.property], seen[fact.fact.property], fact.answer)
        if answer is None:
            answer = _next_other(every, index + 1, fact.answer)
        if answer is None:
            continue
        cases.append(
            Case(
                case_id=f"pilot:{index}",
                timestep="",
                tag="update",
                fact=fact.fact,
                question=fact.question,
                answer=answer,
                cloze=fact.cloze,
                old_objects=(),
                old_answers=(),
                probes=(),
            )
        )
    return cases


def _next_other(answers: Sequence[str], start: int, own: str) -> str | None:
    """First answer that differs from the fact's own, starting at an index and wrapping around."""
    return next((answer for answer in chain(islice(answers, start, None), answers) if answer != own), None)


def anchor_path(fingerprint: str, layer: int, key: object) -> Path:
    """File of a layer's anchor for a model, by all other inputs that it depends on."""
    digest = hashlib.sha256(json.dumps(key, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]
    return home() / "stats" / fingerprint / f"anchor{layer:03d}-{digest}.safetensors"


# With W_i the weights after call i and K_i the layer's inputs at all tokens of its edits, the weights minimise sum |(W
# - W_i) K_i|^2 + lambda |W - W0|^2: the same least-squares problem as for edits, with W_i K_i as values.


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
