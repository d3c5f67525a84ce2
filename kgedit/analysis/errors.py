"""What is wrong with wrong free answers, as shares of all answers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from kgedit.analysis.answers import rows_of
from kgedit.analysis.cells import Cell
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table
from kgedit.records.answer_table import ERROR_CLASSES
from kgedit.records.cases import AXES, LOCALITY_AXES, Axis
from kgedit.records.scores import EvaluationStage

_HEADINGS = {"old answer": "old", "more than the answer": "more"}


def error_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Answers by error class, on every axis but locality; None where nothing was answered freely."""
    rows: list[tuple[Cell, ...]] = []
    for axis in AXES:
        # Before any edit the runs of a group are the same model: one row stands for all.
        unedited = next((shares for run in runs if (shares := _shares(run, "before", axis, preset))), None)
        if unedited:
            rows.append((None, "unedited", axis, *unedited))
        for number, run in enumerate(runs, start=1):
            shares = _shares(run, "own", axis, preset)
            if shares:
                rows.append((number, run.spec.method, axis, *shares))
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("axis", key=True),
        Column("n", "count"),
        Column("right", "percent"),
        *(Column(name, "percent", heading=_HEADINGS.get(name, name)) for name in ERROR_CLASSES),
        Column("by a judge", "percent"),
    )
    note = (
        "Shares of all answers in %, by the first rule that fits (docs/reading-results.md). empty: no word. "
        "repetition: the same words again and again. old: an answer that was right before the edit. more: the answer "
        "and other words, which exact match calls wrong. irrelevant: nothing but words of the question. incorrect: "
        "anything else."
    )
    if not any(row[-1] for row in rows):
        return Table(f"Errors, preset {preset}", columns[:-1], tuple(row[:-1] for row in rows), note)
    note += " By a judge: answers whose class a judge gave instead."
    return Table(f"Errors, preset {preset}", columns, tuple(rows), note)


def _shares(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> tuple[Cell, ...] | None:
    rows = rows_of(run, stage, axis, preset)
    rows = rows.filter(pc.field("right").is_valid())
    classified = rows["error"].drop_null()
    if not len(classified) and not _asked_freely(run, preset):
        return None
    if not len(rows) or axis in LOCALITY_AXES:
        return None
    total = len(rows)
    found = {item["values"]: item["counts"] for item in classified.value_counts().to_pylist()}
    judged = pc.sum(pc.equal(rows["error_by"], "judge")).as_py() or 0
    right = (total - len(classified)) / total
    return (total, right, *(found.get(name, 0) / total for name in ERROR_CLASSES), judged / total)


def _asked_freely(run: Run, preset: str) -> bool:
    return any(item.name == preset and item.generation != "teacher_forcing" for item in run.spec.presets)
