"""Ranks rows of scored answers by paired tests; ranks are ranges if differences are not significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kgedit.analysis.answers import JudgedQuestions, at_questions, common_questions, estimate_of
from kgedit.analysis.cells import Estimate
from kgedit.analysis.comparisons import SURE, PairedResult, paired_result
from kgedit.clustered_statistics import Floats, holm, swap_test


@dataclass(frozen=True, slots=True)
class Placed:
    """One measure of one row.

    Attributes:
        estimate: With its 95 % interval; only a mean for cost.
        first: Best possible rank, from 1; None if the measure is not ranked.
        last: Worst possible rank.
    """

    estimate: Estimate
    first: int | None = None
    last: int | None = None

    @property
    def rank(self) -> str:
        """ "2", or "1-3" for a range; "" if the measure is not ranked."""
        if self.first is None:
            return ""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Ranking:
    """One measure of all rows.

    Attributes:
        placed: Estimate and rank of each row; None if not measured.
        better: Pairs of rows (i, j) in which i is significantly better.
        results: Results of the paired tests.
    """

    placed: tuple[Placed | None, ...]
    better: frozenset[tuple[int, int]]
    results: tuple[PairedResult, ...] = ()


def ranking(judged: Sequence[JudgedQuestions], *, lower_first: bool = False) -> Ranking:
    """Rank rows by the sign-flip test on common questions, corrected by Holm's method over all pairs.

    Args:
        judged: One per row; without questions if not measured.
        lower_first: Whether lower values are better.
    """
    estimates = [estimate_of(one.values, one.relations) for one in judged]
    pairs = list(combinations([index for index, estimate in enumerate(estimates) if estimate], 2))
    results = [paired_result(judged[one], judged[other]) for one, other in pairs]
    gains = [-result.difference.mean if lower_first else result.difference.mean for result in results]
    better = _better(pairs, gains, [result.p for result in results])
    return Ranking(_placed(estimates, better), better, tuple(results))


def harmonic_ranking(parts: Sequence[Sequence[JudgedQuestions]]) -> Ranking:
    """Rank rows by the harmonic mean of several measures, combined as in Meng et al. 2022 (ROME, section 3.4).

    The interval combines the ends of the measures' intervals. Two rows are compared by a permutation test that
    exchanges their answers to whole relations. A row that lacks a measure is not ranked.

    Args:
        parts: For each measure, one per row; higher is better.
    """
    asked = [judged for judged in parts if any(len(one.questions) for one in judged)]
    estimates = [_harmonic_estimate([judged[row] for judged in asked]) for row in range(len(parts[0]))]
    known = [row for row, estimate in enumerate(estimates) if estimate]
    pairs = list(combinations(known, 2))
    tests = [_harmonic_test([(judged[one], judged[other]) for judged in asked]) for one, other in pairs]
    better = _better(pairs, [gain for gain, _ in tests], [p for _, p in tests])
    return Ranking(_placed(estimates, better), better)


def _better(
    pairs: Sequence[tuple[int, int]], gains: Sequence[float], p_values: Sequence[float]
) -> frozenset[tuple[int, int]]:
    """Pairs of rows in which the first is significantly better, from the gain of the second row of each pair."""
    tested = zip(pairs, gains, holm(list(p_values)), strict=True)
    return frozenset((other, one) if gain > 0 else (one, other) for (one, other), gain, p in tested if p < SURE)


def _placed(estimates: Sequence[Estimate | None], better: frozenset[tuple[int, int]]) -> tuple[Placed | None, ...]:
    """Ranks as ranges: after all better rows, before all worse ones."""
    known = sum(estimate is not None for estimate in estimates)
    placed = []
    for row, estimate in enumerate(estimates):
        above, below = sum(worse == row for _, worse in better), sum(best == row for best, _ in better)
        placed.append(None if estimate is None else Placed(estimate, 1 + above, known - below))
    return tuple(placed)


def _harmonic_estimate(measures: Sequence[JudgedQuestions]) -> Estimate | None:
    found = [estimate_of(one.values, one.relations) for one in measures]
    estimates = [estimate for estimate in found if estimate]
    if not found or len(estimates) < len(found):
        return None
    mean = _harmonic_mean([one.mean for one in estimates])
    ends = [(one.low, one.high) for one in estimates if one.low is not None and one.high is not None]
    if len(ends) < len(estimates):
        return Estimate(mean)
    low, high = (_harmonic_mean(values) for values in zip(*ends, strict=True))
    return Estimate(mean, low, high)


def _harmonic_mean(shares: Sequence[float]) -> float:
    return float(_harmonic_means(np.array([shares]))[0])


def _harmonic_means(shares: Floats) -> Floats:
    """Harmonic means over the last axis; 0 if any share is 0."""
    positive = shares > 0
    inverse = (1.0 / np.where(positive, shares, 1.0)).sum(axis=-1)
    means: Floats = np.where(positive.all(axis=-1), shares.shape[-1] / inverse, 0.0)
    return means


def _harmonic_test(measures: Sequence[tuple[JudgedQuestions, JudgedQuestions]]) -> tuple[float, float]:
    """Gain of the second row over the first on common questions, and p-value of the permutation test."""
    names = np.unique(np.concatenate([one.relations for one, _ in measures]))
    sums = np.zeros((2, len(names), len(measures)))
    counts = np.ones(len(measures))
    for index, pair in enumerate(measures):
        common = common_questions(pair)
        counts[index] = max(len(common), 1)
        for side, judged in enumerate(at_questions(one, common) for one in pair):
            relations = np.searchsorted(names, judged.relations)
            sums[side, :, index] = np.bincount(relations, judged.values, minlength=len(names))
    first, second = (_harmonic_mean(list(side / counts)) for side in sums.sum(axis=1))
    return second - first, swap_test(sums[0], sums[1], lambda totals: _harmonic_means(totals / counts))
