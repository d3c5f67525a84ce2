"""Teacher-forced and free answers by data set, model and method, with averages (Mirage, tables 1, 3 and 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from kgedit.analysis.answers import JudgedQuestions, judged_rows, mean_over_runs, rows_of
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.comparisons import paired_result
from kgedit.analysis.over_models import approaches
from kgedit.analysis.runs import Run, choice_of
from kgedit.analysis.tables import Column, Table, dates
from kgedit.records.cases import Axis
from kgedit.records.runs import Preset

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
                cells.setdefault(model, {})[approach.name] = [_cells(own, one) for one in asked]
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
        f"{asked.free.name}: {by}. Locality: unchanged answers. Difference: free less forced, of the same "
        "questions, in points. average: over the measured rows, with equal weights, without interval."
    )


def _cells(runs: Sequence[Run], asked: _Asked) -> _Triple:
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
        tuple(_mean([triple[part] for triple in column]) for part in range(3))  # type: ignore[misc]
        for column in zip(*rows, strict=True)
    ]


def _mean(cells: Sequence[Cell]) -> Estimate | None:
    means = [cell.mean for cell in cells if isinstance(cell, Estimate)]
    return Estimate(fmean(means)) if means else None
