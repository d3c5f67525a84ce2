"""The least-squares problem of MEMIT and related methods, against one dense solve over all edits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kgedit.editing.locate_then_edit.closed_form import AT_ONCE, AccumulatedSolve, inverse
from kgedit.errors import SpecError

INPUTS, OUTPUTS = 12, 7

Edits = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each batch of edits."""


def _penalty(seed: int) -> torch.Tensor:
    half = _random(INPUTS, 2 * INPUTS, seed=seed)
    return half @ half.T / INPUTS


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _edits(sizes: list[int], seed: int) -> Edits:
    return [
        (_random(INPUTS, size, seed=seed + 2 * n), _random(OUTPUTS, size, seed=seed + 2 * n + 1))
        for n, size in enumerate(sizes)
    ]


def _dense(weight: torch.Tensor, penalty: torch.Tensor, edits: Edits) -> torch.Tensor:
    """The minimiser of sum |W K - V|^2 + tr((W - W0) A (W - W0)^T), from its normal equations."""
    keys, values = (torch.cat(parts, dim=1) for parts in zip(*edits, strict=True))
    return torch.linalg.solve(penalty + keys @ keys.T, (weight @ penalty + values @ keys.T).T).T


def _in_sequence(weight: torch.Tensor, solve: AccumulatedSolve, edits: Edits) -> torch.Tensor:
    now = weight
    for keys, values in edits:
        now = now + solve.add(values - now @ keys, keys)
    return now


@pytest.mark.parametrize("sizes", [[1], [3, 2, 1], [9, 8, 7], [1] * 40, [AT_ONCE + 30], [200, 100, 3]])
def test_edits_in_sequence_give_what_one_dense_solve_over_all_of_them_gives(sizes: list[int]) -> None:
    weight, penalty, edits = _random(OUTPUTS, INPUTS, seed=1), _penalty(2), _edits(sizes, 3)
    solve = AccumulatedSolve(inverse(penalty))
    now = _in_sequence(weight, solve, edits)

    assert torch.allclose(now, _dense(weight, penalty, edits), atol=1e-9)
    every = torch.cat([keys for keys, _ in edits], dim=1)
    identity = torch.eye(INPUTS, dtype=torch.float64)
    assert torch.allclose((penalty + every @ every.T) @ solve.times(identity), identity, atol=1e-9)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=8),
    withdrawn=st.integers(0, 7),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40, deadline=None)
def test_a_withdrawn_edit_leaves_what_the_others_alone_give(sizes: list[int], withdrawn: int, seed: int) -> None:
    weight, penalty, edits = _random(OUTPUTS, INPUTS, seed=seed), _penalty(seed + 1), _edits(sizes, seed + 2)
    solve = AccumulatedSolve(inverse(penalty))
    now = _in_sequence(weight, solve, edits)
    keys, values = edits.pop(withdrawn % len(sizes))
    now = now + solve.withdraw(values - now @ keys, keys)
    assert torch.allclose(now, _dense(weight, penalty, edits), atol=1e-8)

    anew = _random(OUTPUTS, keys.shape[1], seed=seed + 99)
    now = now + solve.add(anew - now @ keys, keys)
    assert torch.allclose(now, _dense(weight, penalty, [*edits, (keys, anew)]), atol=1e-8), "overwritten"


def test_without_memory_each_batch_is_solved_for_alone() -> None:
    weight, penalty = _random(OUTPUTS, INPUTS, seed=1), _penalty(2)
    solve, now = AccumulatedSolve(inverse(penalty)), weight
    for edit in _edits([3, AT_ONCE + 9], 5):
        keys, values = edit
        expected = _dense(now, penalty, [edit])
        now = now + solve.change(values - now @ keys, keys)
        assert torch.allclose(now, expected, atol=1e-9)


def test_directions_without_a_start_are_never_touched() -> None:
    """AlphaEdit's projection is the inverse of a penalty that is infinite outside the null space."""
    basis = torch.linalg.qr(_random(INPUTS, 5, seed=1)).Q
    solve = AccumulatedSolve(basis @ basis.T / 0.5)
    weight, edits = _random(OUTPUTS, INPUTS, seed=2), _edits([2, 3, 4], 3)
    change = _in_sequence(weight, solve, edits) - weight

    keys, values = (torch.cat(parts, dim=1) for parts in zip(*edits, strict=True))
    reduced = basis.T @ keys
    gram = reduced @ reduced.T + 0.5 * torch.eye(5, dtype=torch.float64)
    assert torch.allclose(change, torch.linalg.solve(gram, reduced @ (values - weight @ keys).T).T @ basis.T, atol=1e-9)
    outside = _random(INPUTS, 3, seed=9)
    assert (change @ (outside - basis @ (basis.T @ outside))).abs().max() < 1e-12


def test_thousands_of_edits_one_by_one_do_not_drift() -> None:
    penalty, edits = 10 * torch.eye(INPUTS, dtype=torch.float64), _edits([1] * 3000, 1)
    solve = AccumulatedSolve(inverse(penalty))
    weight = torch.zeros(OUTPUTS, INPUTS, dtype=torch.float64)
    now = _in_sequence(weight, solve, edits)

    dense = _dense(weight, penalty, edits)
    assert (now - dense).norm() < 1e-10 * dense.norm()
    assert len(solve.waiting) <= AT_ONCE


def test_an_edit_that_rounding_has_hidden_is_not_withdrawn() -> None:
    solve = AccumulatedSolve(inverse(1e-14 * torch.eye(INPUTS, dtype=torch.float64)))
    ((keys, values),) = _edits([1], 1)
    solve.add(values, keys)
    before = solve.times(keys)

    with pytest.raises(SpecError, match="penalty is too small"):
        solve.check_withdrawal(keys)
    assert torch.equal(solve.times(keys), before)
