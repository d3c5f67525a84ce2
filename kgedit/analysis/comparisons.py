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
from kgedit.resampling import clustered_interval, holm, mcnemar_exact, sign_flip_test


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
        test: "McNemar" or "sign flips".
        p: Of that test, not corrected.
    """

    n: int
    difference: Estimate
    only_first: int | None
    only_second: int | None
    test: str
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
                rows.append((variant.name, seeds, axis, len(means), fmean(means), stdev(means), min(means), max(means)))
    if not rows:
        return None
    columns = (
        Column("runs", key=True),
        Column("seeds", key=True),
        Column("axis", key=True),
        Column("n seeds", "count"),
        *(Column(name, "percent") for name in ("mean", "spread", "lowest", "highest")),
    )
    note = (
        f"{metrics_of(runs, preset)} after the edits in %, over runs that differ in their seed only. Spread: standard "
    )
    return Table(f"Over seeds, preset {preset}", columns, tuple(rows), f"{note}deviation.")


def paired_table(runs: Sequence[Run], axis: Axis, *, preset: str) -> Table | None:
    """Every pair of variants on the questions of one axis; None with fewer than two that answered any.

    P-values are corrected by Holm over the pairs of the table.
    """
    found = [(variant, _mean_over_seeds(variant, axis, preset)) for variant in variants(runs)]
    pairs = list(combinations([(variant, judged) for variant, judged in found if len(judged.questions)], 2))
    results = [paired_result(first, second) for (_, first), (_, second) in pairs]
    if not results:
        return None
    corrected = holm([result.p for result in results])
    rows = tuple(
        (
            *(first.name, second.name, result.n, result.difference),
            *(result.only_first, result.only_second, result.test, result.p, p),
        )
        for ((first, _), (second, _)), result, p in zip(pairs, results, corrected, strict=True)
    )
    columns = (
        *(Column(name, key=True) for name in ("first", "second")),
        Column("n", "count"),
        Column("second less first", "points", heading="second less first [95 %]"),
        *(Column(name, "count") for name in ("only first right", "only second right")),
        Column("test"),
        *(Column(name, "p") for name in ("p", "p (Holm)")),
    )
    note = (
        f"{metrics_of(runs, preset)} on the same questions after the edits, difference in points with its 95 % "
        "interval (paired bootstrap over relations). McNemar: exact, for metrics that are right or wrong, each "
        "question taken as independent; sign flips: permutation of whole relations, for all others and for means over "
        "seeds. Holm: corrected for the pairs of this table. Where interval and test disagree, few relations decide: "
        "believe neither."
    )
    return Table(f"Paired comparison, {axis}, preset {preset}", columns, rows, note)


def paired_axes(runs: Sequence[Run], preset: str) -> list[Axis]:
    """Axes on which methods can be compared."""
    return asked_axes(runs, preset) if len(runs) > 1 else []


def _mean_over_seeds(variant: Variant, axis: Axis, preset: str) -> JudgedQuestions:
    judged = [judged_questions(run, "own", axis, preset) for run in variant.runs]
    common = common_questions(judged)
    same = [at_questions(item, common) for item in judged]
    return JudgedQuestions(common, np.mean([item.values for item in same], axis=0), same[0].relations)


def paired_result(first: JudgedQuestions, second: JudgedQuestions) -> PairedResult:
    """The difference of two methods on the questions that both answered, with the test that fits the values."""
    common = common_questions([first, second])
    one, other = at_questions(first, common), at_questions(second, common)
    differences, clusters = other.values - one.values, numbered(one.relations)
    interval = clustered_interval(differences, clusters) if len(common) else None
    low, high = interval or (None, None)
    difference = Estimate(float(differences.mean()) if len(common) else 0.0, low, high)
    if np.isin([*one.values, *other.values], (0.0, 1.0)).all():
        only_first, only_second = int((differences < 0).sum()), int((differences > 0).sum())
        p = mcnemar_exact(only_first, only_second)
        return PairedResult(len(common), difference, only_first, only_second, "McNemar", p)
    return PairedResult(len(common), difference, None, None, "sign flips", sign_flip_test(differences, clusters))
