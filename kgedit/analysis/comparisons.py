"""Paired comparison of methods on the same questions, with intervals and tests; runs of several seeds are averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, stdev

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
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import (
    Column,
    Table,
    asked_axes,
    main_score,
    metrics_of,
    preset_change_unit,
    preset_scale,
    preset_unit,
)
from kgedit.clustered_statistics import holm, sign_flip_test, smallest_p
from kgedit.records.cases import AXES, Axis
from kgedit.records.scores import SHARE, MetricScale

SURE = 0.05
"""Corrected p-values below this are significant."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Runs that differ only in their seed.

    Attributes:
        numbers: Numbers of the runs, as in the other tables of their group.
        runs: The runs.
    """

    numbers: tuple[int, ...]
    runs: tuple[Run, ...]

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
    """Group runs that differ only in their seed, in the order of the first run of each."""
    parts: list[list[int]] = []
    for index, run in enumerate(runs):
        alike = next((part for part in parts if _but_seed(runs[part[0]]) == _but_seed(run)), None)
        if alike is None:
            parts.append([index])
        else:
            alike.append(index)
    return [Variant(tuple(i + 1 for i in part), tuple(runs[i] for i in part)) for part in parts]


def _but_seed(run: Run) -> object:
    return replace(run.spec, seed=0)


def seeds_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Mean and spread over seeds; None if nothing was run with several seeds."""
    rows: list[tuple[Cell, ...]] = []
    for variant in variants(runs):
        if len({run.spec.seed for run in variant.runs}) < 2:
            continue
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
        Column("second less first", preset_change_unit(runs, preset), heading="difference [95 %]"),
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
        f"{metrics_of(runs, preset)}, on the same questions after the edits. Difference: second less first, {unit}with "
        "its 95 % interval clustered by relation. p: sign-flip permutation test over relations. p Holm: corrected for "
        f"the pairs of an axis. {limits_of_tests(one.result for one in found)}".rstrip()
    )
    return Table(f"Paired comparison, preset {preset}", columns, rows, note)


def limits_of_tests(results: Iterable[PairedResult]) -> str:
    """Note on the limits of these tests if there are few relations; "" otherwise."""
    counts = {result.relations for result in results}
    said = []
    if 1 in counts:
        said.append("Questions of a single relation are taken as independent.")
    few = [count for count in counts if count > 1 and smallest_p(count) >= SURE]
    if few:
        said.append(f"With {max(few)} relations p cannot be below {smallest_p(max(few)):.2g}.")
    return " ".join(said)


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
