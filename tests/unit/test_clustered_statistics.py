"""Intervals and tests agree with independent computations and have the algebra that their names promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kgedit.clustered_statistics import clustered_interval, holm, sign_flip_test, smallest_p, swap_test, wilson_interval

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


SAMPLE = np.repeat(np.arange(10), (8, 4, 4, 4, 3, 2, 2, 1, 1, 1))
"""Relation of each of the sample's 30 update questions."""


def rates_of_relations(mean: float, correlation: float, count: int, generator: np.random.Generator) -> np.ndarray:
    """Rates drawn for relations, whose answers then have this correlation within a relation."""
    if not correlation:
        return np.full(count, mean)
    size = (1 - correlation) / correlation
    return generator.beta(mean * size, (1 - mean) * size, count)


@pytest.mark.parametrize("correlation", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.8, 0.95])
def test_intervals_hold_the_true_rate_as_often_as_they_say(rate: float, correlation: float) -> None:
    generator = np.random.default_rng(7)
    held, trials = 0, 500
    for _ in range(trials):
        rates = rates_of_relations(rate, correlation, 10, generator)
        low, high = clustered_interval((generator.random(30) < rates[SAMPLE]).astype(float), SAMPLE)
        held += low <= rate <= high
    assert held / trials >= 0.93


def test_intervals_of_paired_differences_hold_the_true_difference_as_often_as_they_say() -> None:
    generator = np.random.default_rng(8)
    held, trials = 0, 500
    for _ in range(trials):
        first, second = (rates_of_relations(mean, 0.2, 10, generator)[SAMPLE] for mean in (0.3, 0.6))
        differences = (generator.random(30) < second).astype(float) - (generator.random(30) < first)
        low, high = clustered_interval(differences, SAMPLE, minimum=-1)
        held += low <= 0.3 <= high
    assert held / trials >= 0.93


def test_equal_methods_differ_significantly_in_one_of_twenty_comparisons_at_most() -> None:
    """100 cases of 10 relations; each method is better or worse at whole relations, and neither on the whole."""
    generator = np.random.default_rng(9)
    relations, trials = np.repeat(np.arange(10), 10), 1000
    rejected = 0
    for _ in range(trials):
        first, second = (rates_of_relations(0.5, 0.3, 10, generator)[relations] for _ in range(2))
        differences = (generator.random(100) < second).astype(float) - (generator.random(100) < first)
        rejected += sign_flip_test(differences, relations) < 0.05
    assert rejected / trials <= 0.06


@pytest.mark.parametrize("n", [2, 3, 30])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_values_have_an_interval_that_is_wide_in_small_samples(n: int, value: float) -> None:
    for relations in (np.zeros(n, dtype=np.int64), np.arange(n), np.arange(n) // 2):
        low, high = clustered_interval(np.full(n, value), relations)
        assert 0 <= low <= value <= high <= 1
        assert high - low > 0.05
        assert n > 2 or high - low > 0.9


def test_a_single_answer_has_no_interval() -> None:
    assert clustered_interval(np.ones(1), np.zeros(1, dtype=np.int64)) is None


def test_more_right_answers_never_narrow_the_upper_end() -> None:
    relations = np.repeat(np.arange(10), 10)
    ends = []
    for right in range(51):
        values = np.zeros((10, 10))
        values.T.flat[:right] = 1  # spread over the relations as evenly as can be
        ends.append(clustered_interval(values.ravel(), relations)[1])
    assert ends == sorted(ends)


def test_correlated_answers_widen_an_interval_to_that_of_their_relations() -> None:
    relations = np.repeat(np.arange(10), 100)
    together = clustered_interval((relations < 5).astype(float), relations)
    scattered = clustered_interval(np.tile([0.0, 1.0], 500), relations)
    assert together[1] - together[0] > 0.55, "ten relations, of which five are right"
    assert scattered[1] - scattered[0] < 0.08


def test_one_answer_a_relation_is_wilsons_interval_with_students_quantile() -> None:
    values = np.repeat([0.0, 1.0], (70, 30))
    effective = 99  # the jackknife's n - 1
    expected = wilson_interval(0.3 * effective, effective, quantile=float(stats.t.ppf(0.975, 99)))
    assert clustered_interval(values, np.arange(100)) == pytest.approx(expected, abs=1e-3)


def test_values_without_a_range_have_students_interval() -> None:
    values = np.array([1.2, 3.4, 2.9, 4.5])
    low, high = clustered_interval(values, np.arange(4), maximum=np.inf)
    half = stats.t.ppf(0.975, 3) * stats.sem(values)
    assert (low, high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert clustered_interval(np.full(4, 2.5), np.arange(4), maximum=np.inf) is None


def test_an_interval_does_not_depend_on_the_names_of_relations() -> None:
    values = np.random.default_rng(1).random(30)
    assert clustered_interval(values, SAMPLE) == clustered_interval(values, 3 * SAMPLE + 5)


def test_an_exchange_of_relations_tests_any_statistic() -> None:
    """Ratios of two measures; with three relations that differ, two of eight exchanges are as extreme."""
    first, second = np.array([[9.0, 1], [8, 1], [9, 2]]), np.array([[1.0, 1], [2, 1], [1, 2]])
    assert swap_test(first, second, lambda sums: sums[..., 0] / sums[..., 1]) == 0.25
    assert swap_test(first, first, lambda sums: sums[..., 0]) == 1.0


@pytest.mark.parametrize("relations", [2, 5, 13])
def test_few_relations_cannot_give_a_small_p(relations: int) -> None:
    assert sign_flip_test(np.ones(relations), np.arange(relations)) == smallest_p(relations) == 2 / 2**relations


def test_questions_of_a_single_relation_are_taken_as_independent() -> None:
    assert sign_flip_test(np.ones(6), np.zeros(6, dtype=np.int64)) == 2 / 2**6


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


def test_wilsons_interval_is_the_published_one() -> None:
    # Newcombe 1998, table I, method 3: 81/263, 15/148, 0/20 and 1/29.
    published = {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }
    for (count, total), ends in published.items():
        assert wilson_interval(count, total) == pytest.approx(ends, abs=5e-5)


def test_wilsons_interval_mirrors_and_narrows() -> None:
    low, high = wilson_interval(3, 10)
    assert wilson_interval(7, 10) == pytest.approx((1 - high, 1 - low))
    assert wilson_interval(300, 1000)[0] > low
    assert wilson_interval(300, 1000)[1] < high
    assert wilson_interval(3, 10, quantile=2.6)[1] > high
    assert wilson_interval(10, 10)[1] == 1
