"""Intervals and tests agree with independent computations and have the algebra that their names promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kgedit.proportions import wilson_interval
from kgedit.resampling import holm, interval_within_relation, mcnemar_exact, sign_flip_test

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (0, 7), (5, 15), (20, 20), (300, 250)])
def test_mcnemar_is_a_binomial_test_on_the_pairs_that_differ(first: int, second: int) -> None:
    wanted = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar_exact(first, second) == pytest.approx(wanted)
    assert mcnemar_exact(first, second) == mcnemar_exact(second, first)


@pytest.mark.parametrize("seed", range(3))
def test_sign_flips_with_one_answer_a_relation_are_scipys_permutation_test(seed: int) -> None:
    differences = np.random.default_rng(seed).normal(0.4, 1, size=9)
    wanted = stats.permutation_test(
        (differences, np.zeros(9)), lambda x, y: np.sum(x - y), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert sign_flip_test(differences, np.arange(9)) == pytest.approx(wanted)


def test_sign_flips_move_whole_relations() -> None:
    # 100 answers of two relations, all better: only 2 of 4 assignments of signs are as extreme.
    assert sign_flip_test(np.ones(100), np.repeat([0, 1], 50)) == 0.5
    assert sign_flip_test(np.zeros(4), np.arange(4)) == 1.0


def test_many_relations_are_tried_by_chance_and_come_close_to_all_assignments() -> None:
    differences = np.random.default_rng(5).normal(0.3, 1, size=16)
    every = np.array([abs(np.dot(signs, differences)) for signs in product((1, -1), repeat=16)])
    exact = float((every >= abs(differences.sum()) - 1e-9).mean())
    assert sign_flip_test(differences, np.arange(16)) == pytest.approx(exact, abs=0.02)
    assert sign_flip_test(np.ones(40), np.arange(40)) == 1 / 10_001, "p is never 0"


@given(P_VALUES)
def test_holm_agrees_with_its_definition(p_values: list[float]) -> None:
    count = len(p_values)
    ordered = sorted(p_values)
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        # Rejected at a level exactly when every smaller p passes its own step.
        wanted = max(min(1.0, (count - i) * other) for i, other in enumerate(ordered) if other <= p)
        first = next(i for i, other in enumerate(ordered) if other == p)
        reached = max(min(1.0, (count - i) * ordered[i]) for i in range(first + 1))
        assert adjusted in (pytest.approx(wanted), pytest.approx(reached))


@given(P_VALUES)
def test_holm_lies_between_the_p_value_and_bonferroni(p_values: list[float]) -> None:
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, len(p_values) * p) + 1e-12


@given(P_VALUES, st.randoms())
def test_holm_does_not_depend_on_the_order_of_the_tests(p_values: list[float], random: object) -> None:
    order = list(range(len(p_values)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = holm([p_values[index] for index in order])
    assert sorted(shuffled) == pytest.approx(sorted(holm(p_values)))


def test_shares_about_one_relation_have_wilsons_interval_and_other_values_a_normal_one() -> None:
    assert interval_within_relation(np.array([1.0, 0, 1, 1])) == wilson_interval(3, 4)
    assert interval_within_relation(np.array([0.5, 0.5])) == wilson_interval(1, 2)
    values = np.array([1.2, 3.4, 2.9, 4.5])
    half = stats.norm.ppf(0.975) * stats.sem(values)
    assert interval_within_relation(values) == (pytest.approx(3 - half, abs=1e-4), pytest.approx(3 + half, abs=1e-4))
    assert interval_within_relation(np.array([1.0])) is None
