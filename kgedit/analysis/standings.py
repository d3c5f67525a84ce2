"""Who stands where among runs that compare: every measure with its interval, ranks as ranges.

A rank is a range wherever the answers do not tell two runs apart: "1-3" is one of the first three, and nobody knows
which. Two runs are apart where the paired test on the same questions, corrected by Holm over all pairs, and the paired
bootstrap interval of the difference agree; for damage, of which no answers are paired, where intervals do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

import numpy as np

from kgedit.analysis.answers import JudgedQuestions, at_questions, common_questions, estimate_of, judged_questions
from kgedit.analysis.cells import Estimate
from kgedit.analysis.comparisons import Variant, paired_result, variants
from kgedit.analysis.groups import RunGroup, comparable_groups
from kgedit.analysis.intervals import widened
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import presets_of
from kgedit.records.cases import Axis
from kgedit.records.runs import Preset, Protocol
from kgedit.records.scores import EvaluationStage
from kgedit.resampling import holm

Measure = Literal["efficacy", "generalization", "two_hops", "locality", "damage", "free_decoding", "cost"]

MEASURES: dict[Measure, str] = {
    "efficacy": "update questions right after the edits, by the preset's own metric",
    "generalization": "the same asked in other words: rephrasings, personas, other names of the subject",
    "two_hops": "questions that need the edit and a second fact",
    "locality": "unrelated questions answered as accepted",
    "damage": "unrelated answers that are not as before; lower is better",
    "free_decoding": "update questions right where the model answers freely, by that preset's own metric",
    "cost": "processor seconds of an edit, on the submitter's machine; not ranked",
}
"""Measure -> what it is."""

SURE = 0.05
"""Below this a corrected p-value tells two runs apart."""

_AXES: dict[Measure, tuple[Axis, ...]] = {
    "efficacy": ("update",),
    "generalization": ("rephrase", "personas", "alias"),
    "two_hops": ("mhop",),
    "locality": ("locality",),
}


@dataclass(frozen=True, slots=True)
class Placed:
    """One measure of one row.

    Attributes:
        estimate: With its 95 % interval; of cost only a mean.
        first: Highest rank that it may have, from 1; None where the measure is not ranked.
        last: Lowest rank that it may have.
    """

    estimate: Estimate
    first: int | None = None
    last: int | None = None

    @property
    def rank(self) -> str:
        """ "2", or "1-3" where it is not told apart; "" where it is not ranked."""
        if self.first is None:
            return ""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Standing:
    """One row: runs that differ in nothing but their seed.

    Attributes:
        name: Method, and what tells it from others of the same method.
        variant: The runs.
        cells: What was measured.
    """

    name: str
    variant: Variant
    cells: dict[Measure, Placed]


@dataclass(frozen=True, slots=True)
class Standings:
    """Runs that are ranked together, asked under one preset.

    Attributes:
        key: Unique: "1.wild".
        group: Number of the group, from 1.
        model: Short name.
        protocol: How edits were given.
        train_context: Format that edits were trained in; None where nothing was trained.
        cases_sha256: Of the edited cases.
        preset: Asked under.
        free: Name of the preset of the measure free_decoding; None where it is `preset` itself, or there is none.
        rows: Highest efficacy first.
        before: The unedited model.
    """

    key: str
    group: int
    model: str
    protocol: Protocol
    train_context: str | None
    cases_sha256: str
    preset: Preset
    free: str | None
    rows: tuple[Standing, ...]
    before: dict[Measure, Estimate]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those that any row has."""
        return tuple(measure for measure in MEASURES if any(measure in row.cells for row in self.rows))

    @property
    def leaders(self) -> tuple[Standing, ...]:
        """Rows that may have the highest efficacy."""
        return tuple(row for row in self.rows if (cell := row.cells.get("efficacy")) and cell.first == 1)


def standings_of(runs: Sequence[Run]) -> list[Standings]:
    """Standings of each group, in each the free presets first.

    Args:
        runs: In the order of reports.
    """
    found: list[Standings] = []
    for number, group in enumerate(_groups_by_protocol(runs), start=1):
        presets = _presets(group)
        free = next((preset.name for preset in presets if _is_free(preset)), None)
        found += [_standings(number, group, preset, free) for preset in presets]
    return found


def _groups_by_protocol(runs: Sequence[Run]) -> list[RunGroup]:
    """Comparable runs, apart where edits were given in another way: alone, in a row or all at once."""
    groups = []
    for group in comparable_groups(runs):
        for protocol in dict.fromkeys(run.spec.protocol for run in group.runs):
            chosen = tuple(run for run in group.runs if run.spec.protocol == protocol)
            trained = next((run.spec.train_context for run in chosen if run.spec.train_context), None)
            groups.append(RunGroup(chosen, trained))
    return _without_part_of_another(groups)


def _without_part_of_another(groups: Sequence[RunGroup]) -> list[RunGroup]:
    """Groups but those whose runs all stand in another: methods that train nothing, once more alone."""
    folders = [frozenset(run.folder for run in group.runs) for group in groups]
    return [
        group
        for index, (group, own) in enumerate(zip(groups, folders, strict=True))
        if own not in folders[:index] and not any(own < other for other in folders)
    ]


def _is_free(preset: Preset) -> bool:
    return preset.generation != "teacher_forcing"


def _presets(group: RunGroup) -> list[Preset]:
    """Presets whose scores are shares, the free ones first, and of these the one that was answered most before."""
    shares = [preset for preset in presets_of(group.runs) if _gives_shares(group.runs, preset.name)]
    return sorted(shares, key=lambda preset: (not _is_free(preset), _empty_before(group.runs, preset.name)))


def _gives_shares(runs: Sequence[Run], preset: str) -> bool:
    values = [judged_questions(run, "own", "update", preset).values for run in runs]
    known = np.concatenate(values)
    return bool(len(known)) and bool(known.min() >= 0.0) and bool(known.max() <= 1.0)


def _empty_before(runs: Iterable[Run], preset: str) -> float:
    scores = (run.pooled("before", "update", preset).get("empty") for run in runs)
    return next((score.mean for score in scores if score), 1.0)


def _standings(number: int, group: RunGroup, preset: Preset, free: str | None) -> Standings:
    several = variants(group.runs)
    other = free if free != preset.name else None
    columns: dict[Measure, list[Placed | None]] = {
        measure: _paired(several, axes, preset.name) for measure, axes in _AXES.items()
    }
    columns["damage"] = _by_intervals([_damage(variant, preset.name) for variant in several])
    if other:
        columns["free_decoding"] = _paired(several, ("update",), other)
    columns["cost"] = [_cost(variant) for variant in several]
    names = _names(several)
    rows = [
        Standing(name, variant, {measure: cell for measure, cells in columns.items() if (cell := cells[index])})
        for index, (name, variant) in enumerate(zip(names, several, strict=True))
    ]
    run = group.runs[0]
    return Standings(
        key=f"{number}.{preset.name}",
        group=number,
        model=run.model,
        protocol=run.spec.protocol,
        train_context=group.train_context,
        cases_sha256=run.scores.cases_sha256,
        preset=preset,
        free=other,
        rows=tuple(sorted(rows, key=_order)),
        before=_before(several, preset.name, other),
    )


def _order(row: Standing) -> tuple[float, str]:
    cell = row.cells.get("efficacy")
    return (-cell.estimate.mean if cell else 1.0), row.name


def _judged(variant: Variant, axes: Sequence[Axis], preset: str, stage: EvaluationStage) -> JudgedQuestions:
    """Answers on some axes together, the mean over seeds of each question that all seeds answered."""
    of_runs = []
    for run in variant.runs:
        parts = [judged_questions(run, stage, axis, preset) for axis in axes]
        questions = np.concatenate([part.questions for part in parts])
        order = np.argsort(questions, kind="stable")
        values = np.concatenate([part.values for part in parts])
        relations = np.concatenate([part.relations for part in parts])
        of_runs.append(JudgedQuestions(questions[order], values[order], relations[order]))
    common = common_questions(of_runs)
    same = [at_questions(judged, common) for judged in of_runs]
    return JudgedQuestions(common, np.mean([judged.values for judged in same], axis=0), same[0].relations)


def _estimate(judged: JudgedQuestions) -> Estimate | None:
    found = estimate_of(judged.values, judged.relations)
    return found and widened(found)


def _paired(several: Sequence[Variant], axes: Sequence[Axis], preset: str) -> list[Placed | None]:
    """A measure of every variant, ranked by tests on the same questions."""
    judged = [_judged(variant, axes, preset, "own") for variant in several]
    estimates = [_estimate(one) for one in judged]
    known = [index for index, estimate in enumerate(estimates) if estimate]
    binary = all(bool(np.isin(judged[index].values, (0.0, 1.0)).all()) for index in known)
    pairs = list(combinations(known, 2))
    results = [paired_result(judged[one], judged[other], binary=binary) for one, other in pairs]
    better: set[tuple[int, int]] = set()
    for (one, other), result, p in zip(pairs, results, holm([result.p for result in results]), strict=True):
        low, high = result.difference.low, result.difference.high
        if p >= SURE or low is None or high is None:
            continue
        if low > 0:
            better.add((other, one))
        elif high < 0:
            better.add((one, other))
    return _ranked(estimates, lambda one, other: (one, other) in better)


def _by_intervals(estimates: Sequence[Estimate | None]) -> list[Placed | None]:
    """A measure that is the better the lower it is, ranked where intervals do not overlap."""

    def better(one: int, other: int) -> bool:
        first, second = estimates[one], estimates[other]
        high, low = first.high if first else None, second.low if second else None
        return high is not None and low is not None and high < low

    return _ranked(estimates, better)


def _ranked(estimates: Sequence[Estimate | None], better: Callable[[int, int], bool]) -> list[Placed | None]:
    """Ranks as ranges.

    Args:
        estimates: One a row; None where it was not measured.
        better: Whether one row is told apart from another, and ahead of it.
    """
    known = [index for index, estimate in enumerate(estimates) if estimate]
    placed: list[Placed | None] = []
    for index, estimate in enumerate(estimates):
        if estimate is None:
            placed.append(None)
            continue
        ahead = sum(better(other, index) for other in known)
        behind = sum(better(index, other) for other in known)
        placed.append(Placed(estimate, 1 + ahead, len(known) - behind))
    return placed


def _damage(variant: Variant, preset: str) -> Estimate | None:
    """Share of unrelated answers that changed; of several seeds the mean, with the widest of their intervals."""
    scores = [run.pooled("own", "locality", preset).get("unchanged") for run in variant.runs]
    found = [widened(Estimate(s.mean, s.low, s.high, s.n)) for s in scores if s]
    if not found:
        return None
    lows = [one.low for one in found if one.low is not None]
    highs = [one.high for one in found if one.high is not None]
    low, high = (1.0 - max(highs), 1.0 - min(lows)) if lows and highs else (None, None)
    return Estimate(1.0 - fmean(one.mean for one in found), low, high, found[0].n)


def _cost(variant: Variant) -> Placed | None:
    seconds = [found for run in variant.runs if (found := run.cpu_seconds_per_edit) is not None]
    return Placed(Estimate(fmean(seconds))) if seconds else None


def _before(several: Sequence[Variant], preset: str, free: str | None) -> dict[Measure, Estimate]:
    """The unedited model, as the first run that asked it has it."""
    wanted: dict[Measure, tuple[tuple[Axis, ...], str]] = {name: (axes, preset) for name, axes in _AXES.items()}
    if free:
        wanted["free_decoding"] = (("update",), free)
    found: dict[Measure, Estimate] = {}
    for measure, (axes, asked) in wanted.items():
        estimates = (_estimate(_judged(variant, axes, asked, "before")) for variant in several)
        estimate = next((one for one in estimates if one), None)
        if estimate:
            found[measure] = estimate
    return found


def _names(several: Sequence[Variant]) -> list[str]:
    """The method of each, with what tells it from others of the same method."""
    methods = [variant.runs[0].spec.method for variant in several]
    names = []
    for variant, method in zip(several, methods, strict=True):
        alike = [other for other, name in zip(several, methods, strict=True) if name == method]
        names.append(method if len(alike) == 1 else f"{method} ({_apart(variant, alike)})")
    twins = {name for name in names if names.count(name) > 1}
    return [
        f"{name} #{','.join(map(str, variant.numbers))}" if name in twins else name
        for name, variant in zip(names, several, strict=True)
    ]


def _apart(variant: Variant, alike: Sequence[Variant]) -> str:
    """Settings in which it differs from others of its method; its numbers where there are none."""
    own, others = _settings(variant), [_settings(other) for other in alike]
    names = sorted({name for other in others for name in other})
    differing = [name for name in names if len({repr(other.get(name)) for other in others}) > 1]
    said = ", ".join(f"{name} {own[name]}" for name in differing if own.get(name) is not None)
    return said or ("defaults" if differing else f"#{','.join(map(str, variant.numbers))}")


def _settings(variant: Variant) -> dict[str, object]:
    spec = variant.runs[0].spec
    return {**spec.settings, "batch_size": spec.batch_size, "dtype": spec.dtype, "device": spec.device}
