"""Methods over models, timesteps and data sets: means over models, scores by timestep, and averages over all of them.

Means over models and scores by timestep follow WikiBigEdit (table 5 and figure 3). They are taken per question, like
means over seeds, so they get the same interval as any other mean. Averages of teacher-forced and free answers by data
set, model and method follow Mirage (tables 1, 3 and 9).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import (
    JudgedQuestions,
    at_questions,
    common_questions,
    estimate_of,
    judged_rows,
    mean_over_runs,
    rows_of,
)
from kgedit.analysis.comparisons import of_differences, paired_result
from kgedit.analysis.runs import Run, choice_of
from kgedit.analysis.tables import (
    Cell,
    Column,
    Estimate,
    Table,
    asked_axes,
    dates,
    metrics_of,
    preset_scale,
    preset_unit,
    with_counts,
)
from kgedit.records.cases import Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import EvaluationStage, MetricScale

_Parts = Mapping[str, JudgedQuestions]
"""Answers by timestep, with at least one question each."""


@dataclass(frozen=True, slots=True)
class Approach:
    """One way of editing, over several models.

    Attributes:
        name: Method, and what distinguishes it from other approaches with the same method.
        stage: "before" for the unedited models, else "own".
        models: Runs by model; several if they differ in their seed.
    """

    name: str
    stage: EvaluationStage
    models: Mapping[str, Sequence[Run]]


def approaches(runs: Sequence[Run]) -> list[Approach]:
    """The unedited models, then the approaches in the order of their first runs.

    Runs of one method form one approach if protocol, batch size and training format agree. Settings may differ between
    models, because each has its own published values; runs of one model with different settings form separate
    approaches.
    """
    by_key: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        by_key.setdefault(_way(run), []).append(run)
    parts = [part for same in by_key.values() for part in _apart(same)]
    methods = Counter(part[0].spec.method for part in parts)
    return [
        Approach("unedited", "before", _by_model(runs)),
        *(Approach(_name(part, methods), "own", _by_model(part)) for part in parts),
    ]


def _way(run: Run) -> tuple[object, ...]:
    return run.spec.method, run.spec.protocol, run.spec.batch_size, run.spec.train_context


def _apart(runs: Sequence[Run]) -> list[list[Run]]:
    """Split the runs of one approach by settings if those of one model differ."""
    by_settings: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        by_settings.setdefault(tuple(sorted(run.spec.settings.items())), []).append(run)
    models = [model for part in by_settings.values() for model in {run.spec.model for run in part}]
    return list(by_settings.values()) if len(set(models)) < len(models) else [list(runs)]


def _name(runs: Sequence[Run], methods: Counter[str]) -> str:
    spec = runs[0].spec
    if methods[spec.method] == 1:
        return spec.method
    batch = f"batches of {spec.batch_size}" if spec.protocol == "sequential" else ""
    trained = f"trained in {spec.train_context}" if spec.train_context else ""
    settings = " ".join(f"{name}={value}" for name, value in sorted(spec.settings.items()))
    return ", ".join(part for part in (spec.method, spec.protocol, batch, trained, settings) if part)


def _by_model(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.spec.model, []).append(run)
    return found


def means_table(runs: Sequence[Run], preset: str) -> Table | None:
    """One row per approach and model, followed by its mean over models; one column per axis. None with a single model.

    Args:
        runs: Runs with the same cases and evaluation, of any models.
    """
    if len({run.spec.model for run in runs}) < 2:
        return None
    axes, scale = asked_axes(runs, preset), preset_scale(runs, preset)
    rows: list[tuple[Cell, ...]] = []
    for approach in approaches(runs):
        cells = [_column_of_means(approach, axis, preset, scale) for axis in axes]
        for index, name in enumerate(_row_names(approach)):
            shown = [column[index] for column in cells]
            if any(shown):
                rows.append((approach.name, name, *shown))
    if not rows:
        return None
    columns = (
        *(Column(name, key=True) for name in ("method", "model")),
        *(Column(axis, preset_unit(runs, preset)) for axis in axes),
    )
    note = (
        f"{metrics_of(runs, preset)}: before any edit for unedited, else right after a timestep's own edits, over all "
        "timesteps, weighted by their questions; with the 95 % interval clustered by relation. ±: standard "
        "deviation over timesteps, weighted likewise. mean: over models, question by question, with equal weights; "
        "without interval where models have different questions (--only-failed)."
    )
    return with_counts(Table(f"Means over models, preset {preset}", columns, tuple(rows), note))


def _row_names(approach: Approach) -> list[str]:
    """Names of the models, and of their mean if there are several."""
    models = [runs[0].model for runs in approach.models.values()]
    return [*models, f"mean of {len(models)}"] if len(models) > 1 else models


def _column_of_means(approach: Approach, axis: Axis, preset: str, scale: MetricScale) -> list[Estimate | None]:
    several = [_by_timestep(runs, approach.stage, axis, preset) for runs in approach.models.values()]
    cells = [_with_deviation(list(parts.values()), scale) for parts in several]
    if len(cells) == 1:
        return cells
    same = _same_questions(several)
    return [*cells, _with_deviation(list(_mean(several).values()), scale) if same else _mean_of_means(cells)]


def _by_timestep(runs: Sequence[Run], stage: EvaluationStage, axis: Axis, preset: str) -> _Parts:
    """Answers to each timestep's questions at a stage, averaged over seeds."""
    return _split(runs, stage, axis, preset, column="timestep")


def _split(runs: Sequence[Run], stage: EvaluationStage, axis: Axis, preset: str, *, column: str) -> _Parts:
    asked = _asked(runs, stage, axis, preset)
    if not asked:
        return {}
    parts = {
        name: mean_over_runs([judged_rows(rows.filter(pc.field(column) == name)) for rows in asked])
        for name in runs[0].scores.timesteps
    }
    return {name: judged for name, judged in parts.items() if len(judged.questions)}


def _asked(runs: Sequence[Run], stage: EvaluationStage, axis: Axis, preset: str) -> list[pa.Table]:
    """Non-empty rows of the runs; for an unedited model, whose answers are equal in all runs, those of one run."""
    found = [rows for run in runs if len(rows := rows_of(run, stage, axis, preset))]
    return found[:1] if stage == "before" else found


def _same_questions(several: Sequence[_Parts]) -> bool:
    first, *others = several
    return all(
        other.keys() == first.keys()
        and all(np.array_equal(other[name].questions, first[name].questions) for name in first)
        for other in others
    )


def _mean(several: Sequence[_Parts]) -> _Parts:
    return {name: mean_over_runs([parts[name] for parts in several]) for name in several[0]}


def _mean_of_means(cells: Sequence[Estimate | None]) -> Estimate | None:
    """Mean without interval; None unless every model was measured."""
    means = [cell.mean for cell in cells if cell is not None]
    return Estimate(fmean(means)) if len(means) == len(cells) else None


def _with_deviation(parts: Sequence[JudgedQuestions], scale: MetricScale) -> Estimate | None:
    """Mean over timesteps weighted by questions, with interval and standard deviation over timesteps."""
    if not parts:
        return None
    values, relations = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "relations"))
    found = estimate_of(values, relations, scale)
    if found is None or len(parts) < 2:
        return found
    squares = sum(len(part.values) * (float(part.values.mean()) - found.mean) ** 2 for part in parts)
    return replace(found, deviation=math.sqrt(squares / len(values)))


_AskedAt = Callable[[Sequence[Run], Axis, str], _Parts]
"""Answers of one model's runs, by the last edited timestep."""


def by_timestep_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Score after each timestep on its own questions and on those of earlier timesteps (WikiBigEdit, figures 5 and 7).

    Args:
        runs: Runs with the same cases and evaluation, of any models.

    Returns:
        None if there is a single timestep.
    """
    steps = max((run.scores.timesteps for run in runs), key=len)
    if len(steps) < 2:
        return None
    scale = preset_scale(runs, preset)
    rows: list[tuple[Cell, ...]] = []
    for axis in asked_axes(runs, preset):
        for approach in approaches(runs):
            for asked, parts_of, own_scale in _ways_of_asking(approach, scale):
                several = [parts_of(own, axis, preset) for own in approach.models.values()]
                columns = [_cells(parts, steps, own_scale) for parts in several]
                if len(several) > 1:
                    columns.append(_mean_cells(several, steps, own_scale))
                names = zip(_row_names(approach), columns, strict=True)
                rows += [(axis, approach.name, name, asked, *cells) for name, cells in names if any(cells)]
    if not rows:
        return None
    unit = preset_unit(runs, preset)
    keys = (Column(name, key=True) for name in ("axis", "method", "model", "asked"))
    note = (
        f"{metrics_of(runs, preset)} after each timestep, with the 95 % interval clustered by relation. current: on "
        "that timestep's questions (of the unedited model: before any edit). earlier: on those of all earlier "
        "timesteps that were asked again (--evaluate-earlier). change: of the same questions, from right after their "
        "own edits. mean: over models, question by question."
    )
    table = Table(f"By timestep, preset {preset}", (*keys, *(Column(dates(name), unit) for name in steps)), (), note)
    return with_counts(replace(table, rows=tuple(rows)))


def _ways_of_asking(approach: Approach, scale: MetricScale) -> list[tuple[str, _AskedAt, MetricScale]]:
    stage = approach.stage
    current: tuple[str, _AskedAt, MetricScale] = (
        "current",
        lambda runs, axis, preset: _by_timestep(runs, stage, axis, preset),
        scale,
    )
    if stage == "before":
        return [current]
    return [current, ("earlier", _earlier, scale), ("change", _changes, of_differences(scale))]


def _earlier(runs: Sequence[Run], axis: Axis, preset: str) -> _Parts:
    return _split(runs, "retained", axis, preset, column="model_timestep")


def _changes(runs: Sequence[Run], axis: Axis, preset: str) -> _Parts:
    """Change of earlier questions since directly after their own edits."""
    asked, earlier = _asked(runs, "own", axis, preset), _earlier(runs, axis, preset)
    if not asked or not earlier:
        return {}
    own = mean_over_runs([judged_rows(rows) for rows in asked])
    found = {}
    for name, later in earlier.items():
        common = common_questions([own, later])
        first, second = at_questions(own, common), at_questions(later, common)
        found[name] = JudgedQuestions(common, second.values - first.values, first.relations)
    return {name: judged for name, judged in found.items() if len(judged.questions)}


def _cells(parts: _Parts, steps: Sequence[str], scale: MetricScale) -> list[Estimate | None]:
    found = {name: estimate_of(judged.values, judged.relations, scale) for name, judged in parts.items()}
    return [found.get(name) for name in steps]


def _mean_cells(several: Sequence[_Parts], steps: Sequence[str], scale: MetricScale) -> list[Estimate | None]:
    if _same_questions(several):
        return _cells(_mean(several), steps, scale)
    by_model = [_cells(parts, steps, scale) for parts in several]
    return [_mean_of_means(column) for column in zip(*by_model, strict=True)]


_AXES: dict[Axis, str] = {"update": "reliability", "rephrase": "generalization", "locality": "locality"}
"""Axes of the paper's tables, with the paper's names for them."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One axis under two presets.

    Attributes:
        axis: The evaluated axis.
        forced: Preset that feeds the target.
        free: Preset that generates.
        judged: Whether free answers are scored by a judge's verdicts.
    """

    axis: Axis
    forced: Preset
    free: Preset
    judged: bool


_Triple = tuple[Estimate | None, Estimate | None, Estimate | None]
"""Teacher-forced score, free score, and free minus teacher-forced."""


def averages_tables(runs: Sequence[Run]) -> list[Table]:
    """Build a table for each pair of a teacher-forced and a generating preset, and each protocol.

    Pairs without two methods or two models to average over are left out.
    """
    tables = []
    for protocol, batch_size in dict.fromkeys((run.spec.protocol, run.spec.batch_size) for run in runs):
        alike = [run for run in runs if (run.spec.protocol, run.spec.batch_size) == (protocol, batch_size)]
        editing = f"{protocol}, batches of {batch_size}" if protocol == "sequential" else protocol
        for forced, free in _pairs(alike):
            asking = [run for run in alike if forced in run.spec.presets and free in run.spec.presets]
            table = _table(asking, forced, free, editing=editing)
            tables += [table] if table else []
    return tables


def _pairs(runs: Sequence[Run]) -> list[tuple[Preset, Preset]]:
    """Pairs of presets scored by shares that a run evaluated both of; clozes are left out, their wording differs."""
    presets = [
        preset
        for run in runs
        for preset in run.spec.presets
        if preset.wording == "question" and run.scale_of(preset.metric).is_share
    ]
    forced, free = (
        list(dict.fromkeys(preset for preset in presets if preset.is_forced is is_forced))
        for is_forced in (True, False)
    )
    return [pair for pair in product(forced, free) if any(set(pair) <= set(run.spec.presets) for run in runs)]


def _table(runs: Sequence[Run], forced: Preset, free: Preset, *, editing: str) -> Table | None:
    judged = all(run.scores.judging for run in runs)
    asked = [_Asked(axis, forced, free, judged) for axis in _AXES]
    data = _data_sets(runs)
    rows = [
        (label, *row)
        for choice, label in data.items()
        for row in _rows([run for run in runs if choice_of(run) == choice], asked)
    ]
    measured = [index for index in range(len(asked)) if any(triples[index][2] for *_, triples in rows)]
    if not measured:
        return None
    columns = [
        column
        for index in measured
        for column in (
            Column(f"{_AXES[asked[index].axis]}, {forced.name}", "percent"),
            Column(f"{_AXES[asked[index].axis]}, {free.name}", "percent"),
            Column(f"{_AXES[asked[index].axis]}, difference", "points"),
        )
    ]
    # A single data set needs no column of its name.
    keys = ("data", "model", "method")[len(data) == 1 :]
    body = tuple(
        (*names[-len(keys) :], *(cell for index in measured for cell in triples[index])) for *names, triples in rows
    )
    return Table(
        f"{forced.name} against {free.name}, {editing}",
        (*(Column(name, key=True) for name in keys), *columns),
        body,
        _note(asked[0]),
    )


def _rows(runs: Sequence[Run], asked: Sequence[_Asked]) -> list[tuple[str, str, list[_Triple]]]:
    """Rows of one data set: each model and method, the mean per model and over all rows; no mean of a single row."""
    cells: dict[str, dict[str, list[_Triple]]] = {}
    names = {run.spec.model: run.model for run in runs}
    for approach in approaches(runs):
        for model, own in approach.models.items():
            if approach.stage == "own" and any(run.scores.edits.edits for run in own):
                cells.setdefault(model, {})[approach.name] = [_triple(own, one) for one in asked]
    every = [triples for methods in cells.values() for triples in methods.values()]
    if len(every) < 2:
        return []
    rows = []
    for model, name in names.items():
        methods = cells.get(model, {})
        rows += [(name, method, triples) for method, triples in methods.items()]
        if len(methods) > 1:
            rows.append((name, f"average of {len(methods)}", _averaged(list(methods.values()))))
    return [*rows, *([("all models", f"average of {len(every)}", _averaged(every))] if len(cells) > 1 else [])]


def _data_sets(runs: Sequence[Run]) -> dict[object, str]:
    """Names of the timesteps by edited cases, with the cases' hash if two selections share the names."""
    first = {choice_of(run): run for run in reversed(runs)}
    found = {choice_of(run): first[choice_of(run)] for run in runs}
    names = {choice: ", ".join(dates(name) for name in run.scores.timesteps) for choice, run in found.items()}
    uses = Counter(names.values())
    return {
        choice: name if uses[name] == 1 else f"{name}, cases {found[choice].scores.cases_sha256[:8]}"
        for choice, name in names.items()
    }


def _note(asked: _Asked) -> str:
    by = "a judge" if asked.judged else f"{asked.free.metric}; to count it by a judge: kgedit score --metric judge"
    return (
        f"After the edits, with the 95 % interval clustered by relation. {asked.forced.name}: {asked.forced.metric}. "
        f"{asked.free.name}: {by}. Locality: unchanged answers. Difference: free minus teacher-forced, of the same "
        "questions, in points. average: over the measured rows, with equal weights, without interval."
    )


def _triple(runs: Sequence[Run], asked: _Asked) -> _Triple:
    """Cells of one method and model: the mean over seeds."""
    unchanged = "unchanged" if asked.axis == "locality" else None
    forced = _judged(runs, asked, asked.forced, unchanged or "value")
    free = _judged(runs, asked, asked.free, unchanged or ("judged_right" if asked.judged else "value"))
    both = paired_result(forced, free)
    return forced.estimate, free.estimate, both.difference if both.n else None


def _judged(runs: Sequence[Run], asked: _Asked, preset: Preset, column: str) -> JudgedQuestions:
    return mean_over_runs([judged_rows(rows_of(run, "own", asked.axis, preset.name), column=column) for run in runs])


def _averaged(rows: Sequence[Sequence[_Triple]]) -> list[_Triple]:
    """Column means over the rows that have a value; not every method can edit every model."""
    return [
        tuple(_mean_of_shares([triple[part] for triple in column]) for part in range(3))  # type: ignore[misc]
        for column in zip(*rows, strict=True)
    ]


def _mean_of_shares(cells: Sequence[Cell]) -> Estimate | None:
    means = [cell.mean for cell in cells if isinstance(cell, Estimate)]
    return Estimate(fmean(means)) if means else None
