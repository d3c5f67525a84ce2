"""Methods compared on the same questions: paired differences with intervals and tests; runs of several seeds as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, stdev

import numpy as np

from kgedit.analysis.answers import (
    JudgedQuestions,
    at_questions,
    common_questions,
    judged_questions,
    numbered,
)
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Column, Table, asked_axes, main_score, metrics_of
from kgedit.records.cases import AXES, Axis
from kgedit.resampling import clustered_interval, holm, mcnemar_exact, normal_interval, sign_flip_test


@dataclass(frozen=True, slots=True)
class Variant:
    """Runs that differ in nothing but their seed.

    Attributes:
        numbers: Of the runs, as in the other tables of their group.
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
    """Two variants on the questions that both answered.

    Attributes:
        n: Questions.
        difference: Mean of second less first.
        only_first: Questions that only the first answers right; None where values are not just 0 and 1.
        only_second: Likewise of the second.
        p: Of McNemar's test where values are 0 and 1, else of sign flips; not corrected.
    """

    n: int
    difference: Estimate
    only_first: int | None
    only_second: int | None
    p: float


def variants(runs: Sequence[Run]) -> list[Variant]:
    """Runs of one group by what they differ in beside the seed, in the order of the first of each."""
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
    """Mean and spread over seeds; None where nothing was run with several."""
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
        *(Column(name, "percent") for name in ("mean", "spread", "lowest", "highest")),
    )
    note = f"{metrics_of(runs, preset)} after the edits in %, of runs that differ in their seed only. "
    note += "Spread: standard deviation."
    if not any(row[4] for row in rows):
        note += " All spreads are 0: what these runs do may not depend on the seed."
    return Table(f"Over seeds, preset {preset}", columns, tuple(rows), note)


def paired_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Every pair of variants on every axis; None with fewer than two that answered any.

    P-values are corrected by Holm over the pairs of an axis.
    """
    several = variants(runs)
    judged = {axis: _judged(several, axis, preset) for axis in asked_axes(runs, preset)}
    binary = all(bool(np.isin(item.values, (0.0, 1.0)).all()) for found in judged.values() for _, item in found)
    rows = [row for axis, found in judged.items() for row in _paired_rows(axis, found, binary=binary)]
    if not rows:
        return None
    rights = (Column(name, "count") for name in ("only first", "only second")) if binary else ()
    columns = (
        *(Column(name, key=True) for name in ("axis", "first", "second")),
        Column("n", "count"),
        Column("second less first", "points", heading="difference [95 %]"),
        *rights,
        *(Column(name, "p") for name in ("p", "p Holm")),
    )
    test = (
        "p: McNemar, exact, of the questions that only one of the two answers; each question taken as independent"
        if binary
        else "p: permutation test, whole relations changing their sign"
    )
    note = (
        f"{metrics_of(runs, preset)} on the same questions after the edits. Difference: second less first, in points, "
        f"with its 95 % interval (paired bootstrap over relations). {test}. p Holm: corrected for the pairs of an "
        "axis. Where interval and p disagree, few relations decide: believe neither."
    )
    return Table(f"Paired comparison, preset {preset}", columns, tuple(rows), note)


def _judged(several: Sequence[Variant], axis: Axis, preset: str) -> list[tuple[Variant, JudgedQuestions]]:
    """Variants with their answers, those that have any."""
    found = [(variant, _mean_over_seeds(variant, axis, preset)) for variant in several]
    return [(variant, judged) for variant, judged in found if len(judged.questions)]


def _paired_rows(
    axis: Axis, found: Sequence[tuple[Variant, JudgedQuestions]], *, binary: bool
) -> list[tuple[Cell, ...]]:
    pairs = list(combinations(found, 2))
    results = [paired_result(first, second, binary=binary) for (_, first), (_, second) in pairs]
    corrected = holm([result.p for result in results])
    return [
        (
            *(axis, first.name, second.name, result.n, result.difference),
            *((result.only_first, result.only_second) if binary else ()),
            *(result.p, p),
        )
        for ((first, _), (second, _)), result, p in zip(pairs, results, corrected, strict=True)
    ]


def _mean_over_seeds(variant: Variant, axis: Axis, preset: str) -> JudgedQuestions:
    judged = [judged_questions(run, "own", axis, preset) for run in variant.runs]
    common = common_questions(judged)
    same = [at_questions(item, common) for item in judged]
    return JudgedQuestions(common, np.mean([item.values for item in same], axis=0), same[0].relations)


def paired_result(first: JudgedQuestions, second: JudgedQuestions, *, binary: bool) -> PairedResult:
    """The difference of two methods on the questions that both answered.

    With a single relation its questions are taken as independent.

    Args:
        binary: Whether values are 0 and 1 only.
    """
    common = common_questions([first, second])
    one, other = at_questions(first, common), at_questions(second, common)
    if not len(common):
        return PairedResult(0, Estimate(0.0), 0 if binary else None, 0 if binary else None, 1.0)
    differences, clusters = other.values - one.values, numbered(one.relations)
    if clusters.max() > 0:
        low, high = clustered_interval(differences, clusters) or (None, None)
    else:
        low, high = normal_interval(differences) or (None, None)
        clusters = np.arange(len(differences))
    difference = Estimate(float(differences.mean()), low, high)
    if not binary:
        return PairedResult(len(common), difference, None, None, sign_flip_test(differences, clusters))
    only_first, only_second = int((differences < 0).sum()), int((differences > 0).sum())
    return PairedResult(len(common), difference, only_first, only_second, mcnemar_exact(only_first, only_second))
