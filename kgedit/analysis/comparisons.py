"""Paired comparison of methods on the same questions, with intervals and tests, and ranks by these tests.

Runs of several seeds are averaged. Ranks are ranges if differences are not significant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

import numpy as np

from kgedit.analysis.answers import (
    JudgedQuestions,
    at_questions,
    common_questions,
    interval_of,
    judged_questions,
    mean_over_runs,
    numbered,
)
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import (
    Cell,
    Column,
    Estimate,
    Table,
    asked_axes,
    main_score,
    metrics_of,
    preset_change_unit,
    preset_scale,
    preset_unit,
)
from kgedit.clustered_statistics import Floats, holm, sign_flip_test, smallest_p, swap_test
from kgedit.records.cases import AXES, Axis
from kgedit.records.scores import SHARE, MetricScale

SURE = 0.05
"""Corrected p-values below this are significant."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Runs that differ only in their seed, and in fields that change neither edits nor scores after them.

    Attributes:
        numbers: Numbers of the runs, as in the other tables of their group.
        runs: The runs, one per seed.
        repeated: Further runs of these seeds, which do not count.
    """

    numbers: tuple[int, ...]
    runs: tuple[Run, ...]
    repeated: tuple[Run, ...] = ()

    @property
    def name(self) -> str:
        """Method and run numbers."""
        return f"{self.runs[0].spec.method} #{','.join(map(str, self.numbers))}"


@dataclass(frozen=True, slots=True)
class PairedResult:
    """Comparison of two variants on the questions that both answered.

    Attributes:
        n: Number of questions.
        relations: Number of distinct relations, the clusters of interval and test; with 1, the questions are treated as
            independent.
        difference: Mean of second minus first, with its 95 % interval.
        only_first: Questions that only the first answers correctly; None if values are not all 0 or 1.
        only_second: Questions that only the second answers correctly.
        p: Uncorrected p-value of the sign-flip test over relations.
    """

    n: int
    relations: int
    difference: Estimate
    only_first: int | None
    only_second: int | None
    p: float


def variants(runs: Sequence[Run]) -> list[Variant]:
    """Group runs whose edits and scores differ only by their seed, in the order of the first run of each."""
    parts: list[list[int]] = []
    for index, run in enumerate(runs):
        alike = next((part for part in parts if _but_seed(runs[part[0]]) == _but_seed(run)), None)
        if alike is None:
            parts.append([index])
        else:
            alike.append(index)
    return [_once_per_seed(runs, part) for part in parts]


def _once_per_seed(runs: Sequence[Run], part: Sequence[int]) -> Variant:
    """The first run of each seed."""
    first: dict[int, int] = {}
    for index in part:
        first.setdefault(runs[index].spec.seed, index)
    counted = tuple(first.values())
    repeated = tuple(runs[index] for index in sorted({*part} - {*counted}))
    return Variant(tuple(index + 1 for index in counted), tuple(runs[index] for index in counted), repeated)


def repeated_note(several: Iterable[Variant]) -> str:
    """Runs that are left out because another run of their variant has the same seed; "" without any."""
    names = [run.folder.name for variant in several for run in variant.repeated]
    return f"A seed counts once in a row; left out: {', '.join(names)}." if names else ""


WITHOUT_EFFECT: Mapping[str, Any] = {"checkpoint_every": 0, "evaluate_every": None}
"""Fields of a spec that change neither edits nor scores after them, each with one value for all."""


def _but_seed(run: Run) -> object:
    return replace(run.spec, seed=0, **WITHOUT_EFFECT)


def seeds_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Mean and spread over seeds; None if nothing was run with several seeds."""
    rows: list[tuple[Cell, ...]] = []
    several = [variant for variant in variants(runs) if len(variant.runs) > 1]
    for variant in several:
        for axis in AXES:
            found = [main_score(run.pooled("own", axis, preset)) for run in variant.runs]
            means = [score.mean for score in found if score]
            if len(means) > 1:
                seeds = ", ".join(str(run.spec.seed) for run in variant.runs)
                rows.append((variant.name, seeds, axis, fmean(means), stdev(means), min(means), max(means)))
    if not rows:
        return None
    columns = (
        Column("runs", key=True),
        Column("seeds", key=True),
        Column("axis", key=True),
        *(Column(name, preset_unit(runs, preset)) for name in ("mean", "spread", "lowest", "highest")),
    )
    note = f"{metrics_of(runs, preset)} after the edits, of runs that differ in their seed only. "
    note += "Spread: standard deviation."
    if not any(row[4] for row in rows):
        note += " All spreads are 0: these runs may not depend on the seed."
    note = f"{note} {repeated_note(several)}".rstrip()
    return Table(f"Over seeds, preset {preset}", columns, tuple(rows), note)


def paired_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Every pair of variants on every axis; None if fewer than two have answers.

    P-values are corrected by Holm's method over the pairs of an axis.
    """
    several, scale = variants(runs), preset_scale(runs, preset)
    found = [
        _AxisResult(axis, first.name, second.name, result, corrected)
        for axis in asked_axes(runs, preset)
        for first, second, result, corrected in _paired(_judged(several, axis, preset), scale)
    ]
    if not found:
        return None
    binary = all(one.result.only_first is not None for one in found)
    rights = (Column(name, "count") for name in ("only first", "only second")) if binary else ()
    columns = (
        *(Column(name, key=True) for name in ("axis", "first", "second")),
        *(Column(name, "count") for name in ("n", "relations")),
        Column("second minus first", preset_change_unit(runs, preset), heading="difference [95 %]"),
        *rights,
        *(Column(name, "p") for name in ("p", "p Holm")),
    )
    rows = tuple(
        (
            *(one.axis, one.first, one.second, one.result.n, one.result.relations, one.result.difference),
            *((one.result.only_first, one.result.only_second) if binary else ()),
            *(one.result.p, one.corrected),
        )
        for one in found
    )
    unit = "in points, " if scale.is_share else ""
    note = (
        f"{metrics_of(runs, preset)}, on the same questions after the edits. Difference: second minus first, {unit}"
        "with its 95 % interval clustered by relation. p: sign-flip permutation test over relations. p Holm: corrected "
        f"for the pairs of an axis. {limits_of_tests(one.result for one in found)}".rstrip()
    )
    note = f"{note} {repeated_note(several)}".rstrip()
    return Table(f"Paired comparison, preset {preset}", columns, rows, note)


def limits_of_tests(results: Iterable[PairedResult]) -> str:
    """Note on the limits of these tests if there are few relations; "" otherwise."""
    counts = {result.relations for result in results}
    notes = []
    if 1 in counts:
        notes.append("Questions of a single relation are taken as independent.")
    few = [count for count in counts if count > 1 and smallest_p(count) >= SURE]
    if few:
        notes.append(f"With {max(few)} relations p cannot be below {smallest_p(max(few)):.2g}.")
    return " ".join(notes)


@dataclass(frozen=True, slots=True)
class _AxisResult:
    axis: Axis
    first: str
    second: str
    result: PairedResult
    corrected: float


def _judged(several: Sequence[Variant], axis: Axis, preset: str) -> list[tuple[Variant, JudgedQuestions]]:
    """Variants that have answers, with their answers."""
    found = [(variant, _mean_over_seeds(variant, axis, preset)) for variant in several]
    return [(variant, judged) for variant, judged in found if len(judged.questions)]


def _paired(
    found: Sequence[tuple[Variant, JudgedQuestions]], scale: MetricScale
) -> list[tuple[Variant, Variant, PairedResult, float]]:
    pairs = list(combinations(found, 2))
    results = [paired_result(first, second, scale) for (_, first), (_, second) in pairs]
    corrected = holm([result.p for result in results])
    return [
        (first, second, result, p)
        for ((first, _), (second, _)), result, p in zip(pairs, results, corrected, strict=True)
    ]


def _mean_over_seeds(variant: Variant, axis: Axis, preset: str) -> JudgedQuestions:
    return mean_over_runs([judged_questions(run, "own", axis, preset) for run in variant.runs])


def paired_result(first: JudgedQuestions, second: JudgedQuestions, scale: MetricScale = SHARE) -> PairedResult:
    """Compare two methods on the questions that both answered.

    Args:
        scale: Scale of the values.
    """
    common = common_questions([first, second])
    one, other = at_questions(first, common), at_questions(second, common)
    binary = bool(np.isin(one.values, (0.0, 1.0)).all() and np.isin(other.values, (0.0, 1.0)).all())
    if not len(common):
        return PairedResult(0, 0, Estimate(0.0), 0, 0, 1.0)
    differences, clusters = other.values - one.values, numbered(one.relations)
    low, high = interval_of(differences, clusters, of_differences(scale)) or (None, None)
    return PairedResult(
        n=len(common),
        relations=int(clusters.max()) + 1,
        difference=Estimate(float(differences.mean()), low, high, len(common)),
        only_first=int((differences < 0).sum()) if binary else None,
        only_second=int((differences > 0).sum()) if binary else None,
        p=sign_flip_test(differences, clusters),
    )


def of_differences(scale: MetricScale) -> MetricScale:
    """Scale of the difference between two values."""
    if scale.minimum is None or scale.maximum is None:
        return MetricScale(minimum=None, maximum=None, higher_is_better=scale.higher_is_better)
    width = scale.maximum - scale.minimum
    return MetricScale(minimum=-width, maximum=width, higher_is_better=scale.higher_is_better)


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
    estimates = [one.estimate for one in judged]
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
    found = [one.estimate for one in measures]
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
