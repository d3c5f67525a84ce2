"""Questions that no model answers, because they are hard or unanswerable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import (
    Booleans,
    Hashes,
    at_questions,
    common_questions,
    estimate_of,
    judged_rows,
    rows_of,
)
from kgedit.analysis.cells import Cell
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Column, Table, dates, metrics_of
from kgedit.records.cases import AXES, LOCALITY_AXES, Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import EvaluationStage


def unsolved_table(runs: Sequence[Run]) -> Table | None:
    """Share of questions without a correct answer, over unedited models and over runs; None with fewer than two runs.

    Runs of different models and training formats are pooled, because nothing is ranked here.
    """
    rows: list[tuple[Cell, ...]] = []
    for same in _same_questions(runs):
        for preset in {preset.name: preset for run in same for preset in run.spec.presets}.values():
            asking = [run for run in same if preset in run.spec.presets]
            for axis in AXES:
                cells = _cells(asking, axis, preset)
                if cells:
                    rows.append((same[0].scores.cases_sha256[:8], preset.name, axis, *cells))
    if not rows:
        return None
    columns = (
        *(Column(name, key=True) for name in ("cases", "preset", "axis")),
        Column("n", "count"),
        Column("models", "count"),
        Column("unsolved before", "percent"),
        Column("runs", "count"),
        Column("unsolved after", "percent"),
    )
    note = (
        "Questions that no unedited model answers wholly right, and that no run answers after its edits, in %, of the "
        "questions that all of them were asked."
    )
    return Table("Unsolved", columns, tuple(rows), note)


def unsolved_by_timestep_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Share of each timestep's updates that each unedited model answers wrongly (WikiBigEdit, table 2).

    Args:
        runs: Runs with the same cases and evaluation, of any models.

    Returns:
        None with a single model and timestep, and for runs restricted to a model's failures (`only_failed`).
    """
    models = {run.spec.model: run for run in reversed(runs) if not run.spec.only_failed and len(_updates(run, preset))}
    asked = [models[name] for name in dict.fromkeys(run.spec.model for run in runs) if name in models]
    if not asked or len(asked) == len(asked[0].scores.timesteps) == 1:
        return None
    rows = [
        (dates(timestep) if timestep else "all", *_unsolved_cells([_updates(run, preset, timestep) for run in asked]))
        for timestep in (*asked[0].scores.timesteps, None)
    ]
    columns = (
        Column("timestep", key=True),
        Column("updates", "count"),
        *(Column(run.model, "percent") for run in asked),
        *(Column(name, "percent") for name in ("mean over models", "by no model")[: 2 * (len(asked) > 1)]),
    )
    note = (
        f"Updates that the unedited model does not answer wholly right ({metrics_of(asked, preset)}), with the 95 % "
        "interval clustered by relation, of those that all of these models were asked. by no model: that none of them "
        "answers."
    )
    return Table(f"Unsolved by timestep, preset {preset}", columns, tuple(rows), note)


def _updates(run: Run, preset: str, timestep: str | None = None) -> pa.Table:
    rows = rows_of(run, "before", "update", preset).filter(pc.field("right").is_valid())
    return rows if timestep is None else rows.filter(pc.field("timestep") == timestep)


def _unsolved_cells(asked: Sequence[pa.Table]) -> tuple[Cell, ...]:
    several = [judged_rows(rows, column="right") for rows in asked]
    common = common_questions(several)
    same = [at_questions(judged, common) for judged in several]
    right = np.array([judged.values for judged in same])
    together = (1 - right.mean(axis=0), 1 - right.max(axis=0)) if len(asked) > 1 else ()
    unsolved = (*(1 - right), *together)
    return len(common), *(estimate_of(values, same[0].relations) for values in unsolved)


def _same_questions(runs: Sequence[Run]) -> list[list[Run]]:
    parts: dict[str, list[Run]] = {}
    for run in runs:
        parts.setdefault(run.scores.cases_sha256, []).append(run)
    return [part for part in parts.values() if len(part) > 1]


def _cells(runs: Sequence[Run], axis: Axis, preset: Preset) -> tuple[Cell, ...] | None:
    if axis in LOCALITY_AXES or len(runs) < 2:
        return None
    models = list({run.spec.model: run for run in reversed(runs)}.values())
    before = [found for run in models if len((found := _right(run, "before", axis, preset.name))[0])]
    after = [found for run in runs if len((found := _right(run, "own", axis, preset.name))[0])]
    if not after:
        return None
    unsolved, n = _unsolved(after)
    return n, len(before), _unsolved(before)[0] if before else None, len(after), unsolved


def _right(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> tuple[Hashes, Booleans]:
    rows = rows_of(run, stage, axis, preset)
    rows = rows.filter(pc.field("right").is_valid()).sort_by("question")
    return rows["question"].to_numpy(), rows["right"].to_numpy()


def _unsolved(several: Sequence[tuple[Hashes, Booleans]]) -> tuple[float | None, int]:
    common = several[0][0]
    for questions, _ in several[1:]:
        common = np.intersect1d(common, questions, assume_unique=True)
    if not len(common):
        return None, 0
    solved = np.zeros(len(common), dtype=bool)
    for questions, right in several:
        solved |= right[np.searchsorted(questions, common)]
    return float(1 - solved.mean()), len(common)
