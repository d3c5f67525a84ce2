"""Intervals and tests that respect clusters: questions about one relation succeed or fail together.

Every function takes numbers per answer and the cluster of each; randomness is drawn from a fixed seed, so that the same
answers give the same digits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from kgedit.proportions import wilson_interval

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

REPLICATES = 2000
SEED = 20240331
"""Resamples and seed of every interval."""

SIGN_FLIPS = 10_000
"""Random sign assignments of a test with too many clusters to try them all."""

_MOST_ENUMERATED = 13


def clustered_interval(values: Floats, clusters: Integers) -> tuple[float, float] | None:
    """95 % percentile interval of the mean, whole clusters resampled with replacement.

    Of differences between paired answers it is the paired bootstrap interval.

    Args:
        values: One per answer.
        clusters: The cluster of each, as small integers.

    Returns:
        Both ends; None with fewer than two clusters, which say nothing about the spread between clusters.
    """
    sums, sizes = _per_cluster(values, clusters)
    if len(sizes) < 2:
        return None
    drawn = _draws(len(sizes))
    low, high = np.percentile((drawn @ sums) / (drawn @ sizes), [2.5, 97.5])
    return float(low), float(high)


def interval_within_relation(values: Floats) -> tuple[float, float] | None:
    """95 % interval of the mean of answers about one relation, taken as independent.

    Wilson's where all values are shares, whose mean varies at most as much as that of zeros and ones; else the normal
    one.

    Returns:
        Both ends; None with fewer than two answers.
    """
    if len(values) < 2:
        return None
    if values.min() >= 0 and values.max() <= 1:
        return wilson_interval(float(values.sum()), len(values))
    return normal_interval(values)


def normal_interval(values: Floats) -> tuple[float, float] | None:
    """The mean and 1.96 standard errors to either side; None with fewer than two values."""
    if len(values) < 2:
        return None
    half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p of McNemar's exact test: are the pairs that differ as likely to go either way?

    Source: McNemar 1947, https://doi.org/10.1007/BF02295996; the exact form is a binomial test on pairs that differ.

    Args:
        only_first: Questions that only the first method answers.
        only_second: Questions that only the second answers.
    """
    from scipy.special import bdtr

    differing = only_first + only_second
    if differing == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), differing, 0.5)))


def sign_flip_test(differences: Floats, clusters: Integers) -> float:
    """Two-sided p of the paired permutation test, the differences of a cluster keeping or changing their sign together.

    With up to 13 clusters every assignment of signs is tried, else SIGN_FLIPS random ones (p is then never 0).

    Args:
        differences: Second less first method, one per question.
        clusters: The cluster of each, as small integers.
    """
    sums, _ = _per_cluster(differences, clusters)
    if not np.any(sums):
        return 1.0
    observed = abs(sums.sum()) * (1 - 1e-12)  # a sum in another order may differ in its last digit
    if len(sums) <= _MOST_ENUMERATED:
        bits = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
        return float(np.mean(np.abs((1 - 2 * bits) @ sums) >= observed))
    generator = np.random.default_rng(SEED)
    extreme = 0
    for _ in range(SIGN_FLIPS // 1000):  # in parts: with many relations the signs alone would fill memory
        signs = 1 - 2 * generator.integers(0, 2, size=(1000, len(sums)), dtype=np.int8)
        extreme += int(np.count_nonzero(np.abs(signs @ sums) >= observed))
    return (1 + extreme) / (1 + SIGN_FLIPS)


def holm(p_values: list[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given.

    Source: Holm 1979, A Simple Sequentially Rejective Multiple Test Procedure.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _per_cluster(values: Floats, clusters: Integers) -> tuple[Floats, Floats]:
    """Sum of the values and number of them in each cluster that has any."""
    sizes = np.bincount(clusters).astype(np.float64)
    sums = np.bincount(clusters, weights=values).astype(np.float64)
    return sums[sizes > 0], sizes[sizes > 0]


@lru_cache(maxsize=8)
def _draws(clusters: int) -> Floats:
    # How often each cluster is drawn, one row a resample; the same draws for every group of equally many clusters.
    generator = np.random.default_rng(SEED)
    counts = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=REPLICATES)
    return counts.astype(np.float64)
