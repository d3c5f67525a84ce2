"""Wrong answers: their error classes by rules and by a judge, and questions that no model answers.

Error classes are shares of all free answers; a table shows how far rules and judge agree. Questions that no model
answers are hard or unanswerable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Cell, Column, Estimate, Table, dates, metrics_of
from kgedit.records.answers import ERROR_CLASSES, ErrorClass
from kgedit.records.cases import AXES, LOCALITY_AXES, Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import EvaluationStage

_HEADINGS = {"old answer": "old", "more than the answer": "more"}
_JUDGED_CLASSES: tuple[ErrorClass, ...] = tuple(name for name in ERROR_CLASSES if name != "more than the answer")
_BEYOND: tuple[ErrorClass, ...] = ("repetition", "irrelevant", "incorrect")
"""Continuations of edited models after the target (Mirage, table 7)."""

_MEANINGS = "empty: no words. repetition: the same words repeated. old: an answer that was right before the edit."

_SharesOf = Callable[[pa.Table], tuple[Cell, ...] | None]
"""Computes the cells after the run's name from the answers of one run on one axis."""


def error_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Answers by error class, on every axis except locality; None if there are no free answers."""
    rows = _rows(runs, preset, _shares_by_rules)
    if not rows:
        return None
    columns = (
        *(*METHOD, Column("axis", key=True), Column("n", "count"), Column("right", "percent")),
        *(Column(name, "percent", heading=_HEADINGS.get(name, name)) for name in ERROR_CLASSES),
    )
    note = (
        f"Shares of all answers in %, by the first rule that fits (docs/reading-results.md). {_MEANINGS} more: the "
        "answer and other words, which exact match calls wrong. irrelevant: nothing but words of the question. "
        "incorrect: anything else."
    )
    return Table(f"Errors, preset {preset}", columns, tuple(rows), note)


def judged_error_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Answers by error class as judged by a model; None if no judge classified errors."""
    rows = _rows(runs, preset, _shares_by_judge)
    if not rows:
        return None
    columns = (
        *(*METHOD, Column("axis", key=True), Column("n", "count"), Column("right", "percent")),
        *(Column(name, "percent", heading=_HEADINGS.get(name, name)) for name in _JUDGED_CLASSES),
        Column("no class", "percent"),
        Column("as by rules", "percent"),
    )
    note = (
        f"Shares of the answers with a verdict, in %, by the judge's error class. {_MEANINGS} irrelevant: no "
        "attempt to answer the question. incorrect: anything else. no class: the judge named none. as by rules: of the "
        "answers that rules and judge both gave a class, those with the same one."
    )
    return Table(f"Errors by the judge, preset {preset}", columns, tuple(rows), note)


def beyond_answer_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Answers that begin with the target and are made wrong by what follows (Mirage, section 6.3, tables 6 and 7).

    Returns:
        None if there are no free answers, or if all runs were scored by a version that did not compare the beginnings
        of answers.
    """
    rows = _rows(runs, preset, _shares_beyond)
    if not rows:
        return None
    columns = (
        *(*METHOD, Column("axis", key=True), Column("n", "count")),
        *(Column(name, "percent") for name in ("right at the answer's length", "right at the natural stop")),
        *(Column(name, "percent") for name in (*_BEYOND, "not sorted")),
    )
    note = (
        "Shares of all answers in %. At the answer's length: the first tokens are the target's. At the natural stop: "
        "right as generated and truncated, by the judge if there are verdicts (kgedit score --metric judge), else by "
        "the preset's metric. The others begin with the target and are wrong because of what follows: meaningless "
        "repetition, irrelevant or incorrect information (table 7), by the judge (--judge-errors). Rules detect only "
        "repetition; answers that neither rules nor judge classify are in the last column."
    )
    return Table(f"Errors beyond the answer, preset {preset}", columns, tuple(rows), note)


def _shares_beyond(rows: pa.Table) -> tuple[Cell, ...] | None:
    judged = rows.filter(pc.field("judged_right").is_valid())
    right, error = ("judged_right", "judged_error") if len(judged) else ("right", "error")
    rows = rows.filter(pc.field("begins_right").is_valid() & pc.field(right).is_valid())
    if not len(rows):
        return None
    total = len(rows)
    beyond = rows.filter(pc.field("begins_right") & ~pc.field(right))
    sorted_out = beyond[error].filter(pc.is_in(beyond[error], pa.array(_BEYOND)))
    begun, ended = (pc.sum(rows[name]).as_py() / total for name in ("begins_right", right))
    return (total, begun, ended, *_shares(sorted_out, _BEYOND, total), (len(beyond) - len(sorted_out)) / total)


def _rows(runs: Sequence[Run], preset: str, shares_of: _SharesOf) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    asking = [run if _asks_freely(run, preset) else None for run in runs]
    for axis in (axis for axis in AXES if axis not in LOCALITY_AXES):
        # Before any edit, all runs of a group have the same model: one row is enough.
        unedited = next(
            (cells for run in asking if run and (cells := shares_of(rows_of(run, "before", axis, preset)))), None
        )
        if unedited:
            rows.append((None, "unedited", axis, *unedited))
        for number, run in enumerate(asking, start=1):
            cells = shares_of(rows_of(run, "own", axis, preset)) if run else None
            if run and cells:
                rows.append((number, run.spec.method, axis, *cells))
    return rows


def _asks_freely(run: Run, preset: str) -> bool:
    return any(not item.is_forced for item in run.spec.presets if item.name == preset)


def _shares_by_rules(rows: pa.Table) -> tuple[Cell, ...] | None:
    rows = rows.filter(pc.field("right").is_valid())
    if not len(rows):
        return None
    classified, total = rows["error"].drop_null(), len(rows)
    return (total, (total - len(classified)) / total, *_shares(classified, ERROR_CLASSES, total))


def _shares_by_judge(rows: pa.Table) -> tuple[Cell, ...] | None:
    rows = rows.filter(pc.field("judged_right").is_valid())
    classified, total = rows["judged_error"].drop_null(), len(rows)
    if not len(classified):
        return None
    right = pc.sum(rows["judged_right"]).as_py()
    both = rows.filter(pc.field("error").is_valid() & pc.field("judged_error").is_valid())
    same = pc.mean(pc.equal(both["error"], both["judged_error"])).as_py() if len(both) else None
    unclassified = (total - right - len(classified)) / total
    return (total, right / total, *_shares(classified, _JUDGED_CLASSES, total), unclassified, same)


def _shares(classified: pa.ChunkedArray, classes: Sequence[ErrorClass], total: int) -> list[float]:
    found = {item["values"]: item["counts"] for item in classified.value_counts().to_pylist()}
    return [found.get(name, 0) / total for name in classes]


def agreement_table(runs: Sequence[Run]) -> Table | None:
    """One row per run, preset and rule; None if no answer was judged."""
    rows = tuple(
        (
            *(number, run.spec.method, item.preset, item.rule, item.n),
            *(Estimate(item.share, item.low, item.high, item.n), item.kappa, run.scores.judging.judge),
        )
        for number, run in enumerate(runs, start=1)
        if run.scores.judging
        for item in run.scores.judging.agreement
    )
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("preset", key=True),
        Column("rule", key=True),
        Column("n", "count"),
        Column("agreement", "percent", heading="agreement [95 %]"),
        Column("kappa", "plain"),
        Column("judge"),
    )
    note = (
        "Share of the free answers, over all axes and stages, on which the judge and the rule agree, with the 95 % "
        "interval clustered by relation, and Cohen's kappa, which is 0 for chance agreement and missing if either "
        "gives all answers the same verdict. token_f1 counts as right from 0.5."
    )
    return Table("Judge agreement", columns, rows, note)


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
