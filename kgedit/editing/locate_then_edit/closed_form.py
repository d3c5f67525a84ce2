"""Closed-form solutions for an edited matrix: least squares over all edits so far, and options of several methods.

The edited matrix W minimises sum |W K_i - V_i|^2 + tr((W - W0) A (W - W0)^T) over the edits' keys K_i and values V_i.
Methods differ only in the penalty A: AlphaEdit's is infinite outside its null space, MEMIT's is lambda C. The state is
M, the inverse of A + sum K_i K_i^T, one matrix per edited layer for all past edits; new edits update it by the Woodbury
identity, so neither time nor memory depends on the number of past edits.

The options are SPHERE, NAS and least interference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import torch

from kgedit.editing.locate_then_edit.second_moments import lower_factor
from kgedit.editing.locate_then_edit.value_search import EditRequest
from kgedit.errors import SpecError
from kgedit.llm.devices import float64_device, in_float64
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.surgery.matrices import EditedMatrix
from kgedit.llm.surgery.structure import by_row, hooks
from kgedit.records.cases import Case, KnownFact
from kgedit.resources import home

AT_ONCE = 256
"""Maximum number of edits solved together, and of edits waiting to be folded into the matrix.

With 1,536 inputs, factorising the system of this many edits costs 1 % of the product of M with their keys (256^3 / 3 to
1,536^2 x 256 multiplications).
"""

_EXACT = 1e-6
"""Maximum rounding error of a withdrawal, relative to the divisor."""


class AccumulatedSolve:
    """M of one layer, as a matrix and up to `AT_ONCE` edits not yet folded into it.

    A single edit costs one product of M with its keys; the rank-one changes of M are applied together, as one matrix
    product. All computations are in float64.

    Args:
        start: M before the first edit, inputs x inputs, symmetric; changed in place once edits are folded.

    Attributes:
        folded: Whether `start` has been changed.
        largest: Largest element of `start`, to which all rounding errors are relative.
    """

    def __init__(self, start: torch.Tensor, *, largest: float | None = None) -> None:
        self.largest = float(start.diagonal().max()) if largest is None else largest
        self._matrix = start
        self._waiting = start.new_empty(0, len(start))  # M is the matrix minus X^T X, for these rows X
        self._count = 0
        self.folded = False

    def __len__(self) -> int:
        """Number of inputs."""
        return len(self._matrix)

    @property
    def waiting(self) -> torch.Tensor:
        """Rows not folded yet: edits x inputs."""
        return self._waiting[: self._count]

    @property
    def matrix(self) -> torch.Tensor:
        """M without the waiting edits."""
        return self._matrix

    def times(self, keys: torch.Tensor) -> torch.Tensor:
        """M K, for keys of inputs x edits."""
        found = self._matrix @ keys
        return found - self.waiting.T @ (self.waiting @ keys) if self._count else found

    def change(self, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Like `add`, but without recording the edits."""
        if keys.shape[1] + self._count > AT_ONCE:
            return self.copy().add(residuals, keys)
        left, right = self._solve(residuals, keys)
        return left @ right

    def add(self, residuals: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the change of W (outputs x inputs) for new edits, and record them as past edits.

        Args:
            residuals: V - W K, outputs x edits.
            keys: K, inputs x edits.
        """
        changes: list[torch.Tensor] = []
        for start in range(0, keys.shape[1], AT_ONCE):
            own, missing = keys[:, start : start + AT_ONCE], residuals[:, start : start + AT_ONCE]
            if changes:
                missing = missing - changes[0] @ own
            left, right = self._solve(missing, own)
            self._wait(right)
            changes = [changes[0].addmm_(left, right)] if changes else [left @ right]
        return changes[0]

    def check_withdrawal(self, keys: torch.Tensor) -> None:
        """Raise if edits cannot be withdrawn because rounding hides the state before them.

        Raises:
            SpecError: if their keys outweigh the penalty too much.
        """
        # A withdrawal divides by 1 - k^T M k, the squared pivots. Rounding of M changes k^T M k by about its largest
        # element times |k|^2, so a squared pivot of that size is noise.
        pivots, failed = torch.linalg.cholesky_ex(_identity(keys) - keys.T @ self.times(keys))
        rounding = torch.finfo(keys.dtype).eps * self.largest * float(keys.square().sum(0).max())
        if int(failed) or float(pivots.diagonal().min()) ** 2 * _EXACT < rounding:
            raise SpecError(
                ["the penalty is too small relative to the edits' keys: they cannot be withdrawn exactly"],
                of="Nothing was withdrawn",
            )

    def withdraw(self, deviations: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Return the change of W that removes edits, and remove them from M.

        Args:
            deviations: V - W K of these edits with the current W, outputs x edits.
            keys: K, inputs x edits, which must pass `check_withdrawal`.
        """
        self._fold()
        # Waiting rows are subtracted from M. A withdrawal adds to it, so it cannot wait among them.
        left, right = self._solve(deviations, keys, sign=-1)
        self._matrix.addmm_(right.T, right)
        self.folded = True
        return -(left @ right)

    def copy(self) -> AccumulatedSolve:
        """Return a copy that can be changed independently."""
        return AccumulatedSolve.of(self._matrix.clone(), self.waiting, largest=self.largest)

    def clear(self) -> None:
        """Remove all edits that are not folded."""
        self._count = 0

    @classmethod
    def of(
        cls, matrix: torch.Tensor, waiting: torch.Tensor | None, *, largest: float | None = None
    ) -> AccumulatedSolve:
        """Create a solve from the parts of another; without `largest`, nothing is folded into the matrix."""
        found = cls(matrix, largest=largest)
        if waiting is not None:
            found._wait(waiting)
        found.folded = largest is not None
        return found

    def _solve(
        self, residuals: torch.Tensor, keys: torch.Tensor, *, sign: int = 1
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two factors of R S^-1 (M K)^T, with S = 1 + K^T M K, or 1 - K^T M K for withdrawals."""
        spread = self.times(keys)
        factor = torch.linalg.cholesky(_identity(keys) + sign * keys.T @ spread)
        right = torch.linalg.solve_triangular(factor, spread.T, upper=False)
        return torch.linalg.solve_triangular(factor, residuals.T, upper=False).T, right

    def _wait(self, rows: torch.Tensor) -> None:
        if self._count + len(rows) > AT_ONCE:
            self._fold()
        if not len(self._waiting):
            self._waiting = self._matrix.new_empty(AT_ONCE, len(self._matrix))
        self._waiting[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def _fold(self) -> None:
        if self._count:
            self._matrix.addmm_(self.waiting.T, self.waiting, alpha=-1)
            self._count, self.folded = 0, True


def inverse(penalty: torch.Tensor) -> torch.Tensor:
    """Invert a symmetric positive definite matrix made of a second moment.

    Raises:
        SpecError: if it is singular.
    """
    return torch.cholesky_inverse(lower_factor(penalty))


def _identity(keys: torch.Tensor) -> torch.Tensor:
    return torch.eye(keys.shape[1], dtype=keys.dtype, device=keys.device)


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
