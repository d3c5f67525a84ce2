"""Error classes of wrong free answers, as shares of all answers, by rules and by a judge, and how far the two agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import rows_of
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table
from kgedit.records.answers import ERROR_CLASSES, ErrorClass
from kgedit.records.cases import AXES, LOCALITY_AXES

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
