"""Ranks the runs on a board: those that are comparable, with their differences, as tables and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np

from kgedit.analysis.answers import JudgedQuestions, at_questions, common_questions, judged_questions
from kgedit.analysis.comparisons import (
    WITHOUT_EFFECT,
    Placed,
    Ranking,
    Variant,
    harmonic_ranking,
    limits_of_tests,
    ranking,
    repeated_note,
    variants,
)
from kgedit.analysis.overviews import kinds_of
from kgedit.analysis.runs import Run, RunGroup, comparable_groups
from kgedit.analysis.tables import Cell, Column, Estimate, Table, Unit, as_values, preset_scale, presets_of, with_counts
from kgedit.records.cases import Axis
from kgedit.records.runs import Preset, Protocol
from kgedit.records.scores import SHARE, EvaluationStage

# A rank is a range if differences are not significant: "1-3" means one of the first three. Two runs differ if the
# paired permutation test on the same questions, corrected by Holm's method over all pairs of the measure, gives p
# below 0.05. Rows are ordered by `overall`, in which damage to unrelated answers has the same weight as efficacy.


Measure = Literal["overall", "efficacy", "generalization", "two_hops", "locality", "damage", "free_decoding", "cost"]

MEASURES: dict[Measure, str] = {
    "overall": "harmonic mean of efficacy, generalization (where asked) and unchanged unrelated answers",
    "efficacy": "update questions right after the edits, by the preset's own metric",
    "generalization": "the same in other words: rephrasings, personas, other names of the subject",
    "two_hops": "questions that need the edit and a second fact",
    "locality": "unrelated questions answered as accepted",
    "damage": "unrelated answers that the edits changed; lower is better",
    "free_decoding": "update questions under free generation, by that preset's own metric",
    "cost": "processor seconds per edit, on the submitter's machine; not ranked",
}
"""Measure -> definition."""

_AXES: dict[Measure, tuple[Axis, ...]] = {
    "efficacy": ("update",),
    "generalization": ("rephrase", "personas", "alias"),
    "two_hops": ("mhop",),
    "locality": ("locality",),
}


@dataclass(frozen=True, slots=True)
class Standing:
    """One row: runs that differ only in their seed.

    Attributes:
        name: Method, with the settings that distinguish it from other rows of the same method.
        variant: The runs, one per seed.
        cells: Measures of these runs.
    """

    name: str
    variant: Variant
    cells: dict[Measure, Placed]


@dataclass(frozen=True, slots=True)
class Standings:
    """Runs that are ranked together, evaluated under one preset.

    Attributes:
        key: Unique key, such as "1.wild".
        group: Number of the group, from 1.
        model: Short name of the model.
        protocol: Protocol of the edits.
        train_context: Training format of the edits; None if nothing was trained.
        cases_sha256: Hash of the edited cases.
        preset: Preset of the evaluation.
        free: Preset of the measure free_decoding; None if it is `preset` itself or there is none.
        rows: By descending overall score, or by descending efficacy if damage was not measured.
        before: The unedited model.
        less_damage: Name of a row -> names of rows whose damage is significantly lower.
        tests_limit: Effect of a small number of relations on the tests, or "".
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
    less_damage: dict[str, tuple[str, ...]]
    tests_limit: str

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures that any row has."""
        return tuple(measure for measure in MEASURES if any(measure in row.cells for row in self.rows))

    def leaders(self, measure: Measure) -> tuple[Standing, ...]:
        """Rows that may be the best by a measure, best estimate first."""
        known = [(cell, row) for row in self.rows if (cell := row.cells.get(measure)) and cell.first == 1]
        sign = 1 if measure == "damage" else -1
        return tuple(row for cell, row in sorted(known, key=lambda one: sign * one[0].estimate.mean))


def standings_of(runs: Sequence[Run]) -> list[Standings]:
    """Standings of each group, free presets first.

    Args:
        runs: Runs in report order.
    """
    found: list[Standings] = []
    for number, group in enumerate(_groups_by_protocol(runs), start=1):
        presets = _presets(group)
        free = next((preset.name for preset in presets if not preset.is_forced), None)
        found += [_standings(number, group, preset, free) for preset in presets]
    return found


def _groups_by_protocol(runs: Sequence[Run]) -> list[RunGroup]:
    """Comparable groups, split by protocol: single, sequential or batch."""
    groups = []
    for group in comparable_groups(runs):
        for protocol in dict.fromkeys(run.spec.protocol for run in group.runs):
            chosen = tuple(run for run in group.runs if run.spec.protocol == protocol)
            trained = next((run.spec.train_context for run in chosen if run.spec.train_context), None)
            groups.append(RunGroup(chosen, trained))
    return _without_part_of_another(groups)


def _without_part_of_another(groups: Sequence[RunGroup]) -> list[RunGroup]:
    """Drop groups that are contained in another, such as methods without training on their own."""
    folders = [frozenset(run.folder for run in group.runs) for group in groups]
    return [
        group
        for index, (group, own) in enumerate(zip(groups, folders, strict=True))
        if own not in folders[:index] and not any(own < other for other in folders)
    ]


def _presets(group: RunGroup) -> list[Preset]:
    """Presets scored by shares: free ones first, starting with the one with the fewest empty answers before editing."""
    shares = [preset for preset in presets_of(group.runs) if _gives_shares(group.runs, preset.name)]
    return sorted(shares, key=lambda preset: (preset.is_forced, empty_before(group.runs, preset.name)))


def _gives_shares(runs: Sequence[Run], preset: str) -> bool:
    asked = any(run.pooled("own", "update", preset) for run in runs)
    return asked and preset_scale(runs, preset) == SHARE


def empty_before(runs: Iterable[Run], preset: str) -> float:
    """Share of empty answers before any edit, by the first run that has them; 1 without any."""
    scores = (run.pooled("before", "update", preset).get("empty") for run in runs)
    return next((score.mean for score in scores if score), 1.0)


def _standings(number: int, group: RunGroup, preset: Preset, free: str | None) -> Standings:
    several = variants(group.runs)
    other = free if free != preset.name else None
    rankings = _rankings(several, preset.name, other)
    names = _names(several)
    rows = [
        Standing(
            name,
            variant,
            {measure: cell for measure, column in rankings.items() if (cell := column.placed[row])},
        )
        for row, (name, variant) in enumerate(zip(names, several, strict=True))
    ]
    run, better = group.runs[0], rankings["damage"].better
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
        before=_ranks_before(several, preset.name, other),
        less_damage={
            name: tuple(other for column, other in enumerate(names) if (column, row) in better)
            for row, name in enumerate(names)
        },
        tests_limit=limits_of_tests(result for column in rankings.values() for result in column.results),
    )


def _rankings(several: Sequence[Variant], preset: str, free: str | None) -> dict[Measure, Ranking]:
    """All measures of all variants."""
    measured = {measure: _answers(several, axes, preset) for measure, axes in _AXES.items()}
    kept = [_judged(variant, ("locality",), preset, "own", column="unchanged") for variant in several]
    changed = [replace(one, values=1.0 - one.values) for one in kept]
    rankings: dict[Measure, Ranking] = {}
    if any(len(one.questions) for one in measured["efficacy"]) and any(len(one.questions) for one in kept):
        rankings["overall"] = harmonic_ranking([measured["efficacy"], measured["generalization"], kept])
    rankings |= {measure: ranking(answers) for measure, answers in measured.items()}
    rankings["damage"] = ranking(changed, lower_first=True)
    if free:
        rankings["free_decoding"] = ranking(_answers(several, ("update",), free))
    rankings["cost"] = Ranking(tuple(_cost(variant) for variant in several), frozenset())
    return rankings


def _order(row: Standing) -> tuple[float, float, str]:
    overall, efficacy = (row.cells.get(measure) for measure in ("overall", "efficacy"))
    return -_mean_of(overall), -_mean_of(efficacy), row.name


def _mean_of(cell: Placed | None) -> float:
    return cell.estimate.mean if cell else -1.0


def _answers(several: Sequence[Variant], axes: Sequence[Axis], preset: str) -> list[JudgedQuestions]:
    return [_judged(variant, axes, preset, "own") for variant in several]


def _judged(
    variant: Variant, axes: Sequence[Axis], preset: str, stage: EvaluationStage, *, column: str = "value"
) -> JudgedQuestions:
    """Answers on several axes together, averaged over seeds for each question that all seeds answered."""
    of_runs = []
    for run in variant.runs:
        parts = [judged_questions(run, stage, axis, preset, column=column) for axis in axes]
        questions = np.concatenate([part.questions for part in parts])
        order = np.argsort(questions, kind="stable")
        values = np.concatenate([part.values for part in parts])
        relations = np.concatenate([part.relations for part in parts])
        of_runs.append(JudgedQuestions(questions[order], values[order], relations[order]))
    common = common_questions(of_runs)
    same = [at_questions(judged, common) for judged in of_runs]
    return JudgedQuestions(common, np.mean([judged.values for judged in same], axis=0), same[0].relations)


def _cost(variant: Variant) -> Placed | None:
    seconds = [found for run in variant.runs if (found := run.cpu_seconds_per_edit) is not None]
    return Placed(Estimate(fmean(seconds))) if seconds else None


def _ranks_before(several: Sequence[Variant], preset: str, free: str | None) -> dict[Measure, Estimate]:
    """Measures of the unedited model, from the first run that evaluated it."""
    wanted: dict[Measure, tuple[tuple[Axis, ...], str]] = {name: (axes, preset) for name, axes in _AXES.items()}
    if free:
        wanted["free_decoding"] = (("update",), free)
    found: dict[Measure, Estimate] = {}
    for measure, (axes, asked) in wanted.items():
        estimates = (_judged(variant, axes, asked, "before").estimate for variant in several)
        estimate = next((one for one in estimates if one), None)
        if estimate:
            found[measure] = estimate
    return found


def _names(several: Sequence[Variant]) -> list[str]:
    """Method of each variant, with the settings that distinguish it from others of the same method."""
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
    """Settings that distinguish a variant from others of its method; run numbers if there are none."""
    own, others = _settings(variant), [_settings(other) for other in alike]
    names = sorted({name for other in others for name in other})
    differing = [name for name in names if len({repr(other.get(name)) for other in others}) > 1]
    text = ", ".join(f"{name} {own[name]}" for name in differing if own.get(name) is not None)
    return text or ("defaults" if differing else f"#{','.join(map(str, variant.numbers))}")


_OF_GROUP = frozenset({"model", "method", "protocol", "train_context"})
"""Fields of a spec that are the same for all runs of a method in a group."""


def _settings(variant: Variant) -> dict[str, object]:
    """Everything that distinguishes variants: settings, and fields of the spec."""
    spec = variant.runs[0].spec
    others = {"seed", "settings", *WITHOUT_EFFECT, *_OF_GROUP}
    of_spec = {field.name: getattr(spec, field.name) for field in fields(spec) if field.name not in others}
    lists = {
        "presets": [preset.name for preset in spec.presets],
        "timesteps": [Path(timestep).name for timestep in spec.timesteps],
        "ability_tasks": spec.ability_tasks,
    }
    return {**spec.settings, **of_spec, **{name: "+".join(found) or None for name, found in lists.items()}}


HEADINGS: dict[Measure, str] = {
    "overall": "overall",
    "efficacy": "efficacy",
    "generalization": "generalization",
    "two_hops": "two hops",
    "locality": "locality",
    "damage": "damage",
    "free_decoding": "free decoding",
    "cost": "CPU s per edit",
}

_NUMBERS = (
    *("group", "model", "protocol", "trained_in", "cases_sha256", "preset", "name", "method", "runs", "seeds"),
    *("measure", "mean", "low", "high", "n", "first_rank", "last_rank"),
)


def standings_tables(standings: Sequence[Standings]) -> list[Table]:
    """One table per group and preset: every measure with its rank."""
    return [_table(one) for one in standings]


def title_of(standings: Standings) -> str:
    """Title: group, model, protocol, training format, preset."""
    trained = f", trained in {standings.train_context}" if standings.train_context else ""
    protocol = standings.protocol.replace("_", " ")
    return f"Group {standings.group}: {standings.model}, {protocol}{trained}, preset {standings.preset.name}"


def _table(standings: Standings) -> Table:
    shown = standings.measures
    columns = [Column("method", key=True), Column("runs", key=True)]
    for measure in shown:
        unit: Unit = "seconds" if measure == "cost" else "percent"
        columns.append(Column(measure, unit, heading=HEADINGS[measure]))
        if measure != "cost":
            columns.append(Column(f"{measure} rank", heading="rank"))
    rows = [_row(row, shown) for row in standings.rows]
    if standings.before:
        rows.append(_before(standings, shown))
    free = f" Free decoding: preset {standings.free}." if standings.free else ""
    limit = f" {standings.tests_limit}" if standings.tests_limit else ""
    repeated = f" {said}" if (said := repeated_note(row.variant for row in standings.rows)) else ""
    kinds = kinds_of(standings.rows[0].variant.runs[0]) if standings.rows else ""
    kinds = f" ({kinds})" if kinds else ""
    note = (
        f"Cases {standings.cases_sha256[:8]}{kinds}; {standings.preset.metric} in % right after the edits, with the "
        "95 % interval clustered by relation. Damage: unrelated answers that changed. Overall: harmonic mean of "
        "efficacy, generalization (where asked) and unchanged unrelated answers. Ranks: paired permutation tests over "
        "relations, "
        f"corrected by Holm; a range where differences are not significant.{repeated}{limit}{free}"
    )
    return with_counts(Table(title_of(standings), tuple(columns), tuple(rows), note))


def _row(row: Standing, shown: Sequence[Measure]) -> tuple[Cell, ...]:
    cells: list[Cell] = [row.name, str(len(row.variant.runs))]
    for measure in shown:
        placed = row.cells.get(measure)
        cells += [_value(measure, placed), *([] if measure == "cost" else [placed.rank if placed else None])]
    return tuple(cells)


def _value(measure: Measure, placed: Placed | None) -> Cell:
    if placed is None:
        return None
    return placed.estimate.mean if measure == "cost" else placed.estimate


def _before(standings: Standings, shown: Sequence[Measure]) -> tuple[Cell, ...]:
    cells: list[Cell] = ["before any edit", ""]
    for measure in shown:
        cells += [standings.before.get(measure), *([] if measure == "cost" else [""])]
    return tuple(cells)


def standings_csv(standings: Sequence[Standings]) -> str:
    """One line per measure, row, group and preset; shares as fractions of 1."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(_NUMBERS)
    for one in standings:
        group = (one.group, one.model, one.protocol, one.train_context or "", one.cases_sha256, one.preset.name)
        for row in one.rows:
            runs = row.variant.runs
            seeds = " ".join(str(run.spec.seed) for run in runs)
            who = (row.name, runs[0].spec.method, " ".join(run.folder.name for run in runs), seeds)
            for measure in MEASURES:
                if (placed := row.cells.get(measure)) is not None:
                    values = as_values(placed.estimate)
                    numbers = (values["mean"], values["low"], values["high"], values["n"], placed.first, placed.last)
                    writer.writerow([*group, *who, measure, *("" if value is None else value for value in numbers)])
    return lines.getvalue()
