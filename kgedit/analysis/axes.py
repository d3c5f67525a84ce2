"""Table of all measurements on one axis under one preset, one row per run."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.analysis.cells import estimate, mean
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Column, Table, main_score, metric_unit, metrics_of, preset_unit, who
from kgedit.records.cases import Axis


def axis_table(runs: Sequence[Run], axis: Axis, *, preset: str) -> Table | None:
    """All measurements on one axis under one preset; None if no run evaluated it."""
    measured = [run.pooled("own", axis, preset) for run in runs]
    earlier = [run.pooled("before", axis, preset) for run in runs]
    found = [score for scores in (*measured, *earlier) for score in scores.values()]
    if not found:
        return None
    side = sorted({metric for scores in measured for metric, score in scores.items() if not score.main})
    told = who(runs)
    rows = []
    for run, cells, after, before in zip(runs, told.cells, measured, earlier, strict=True):
        main = main_score(after)
        counts = (main.n, main.relations) if main else (None, None)
        sides = (mean(after.get(metric)) for metric in side)
        costs = (run.seconds_per_edit, run.questions_per_second(preset))
        rows.append((*cells, mean(main_score(before)), estimate(main), *counts, *sides, *costs))
    columns = (
        *told.columns,
        Column("before", preset_unit(runs, preset)),
        Column("after", preset_unit(runs, preset), heading="after [95 %]"),
        Column("n", "count"),
        Column("relations", "count"),
        *(Column(metric.replace("_", " "), metric_unit(runs, metric)) for metric in side),
        Column("seconds per edit", "seconds"),
        Column("questions per second", "rate"),
    )
    note = (
        f"before, after: {metrics_of(runs, preset)}, with the 95 % interval clustered by relation; others: after "
        "the edits, shares in %. Questions per second: after the edits."
    )
    return Table(f"{axis}, preset {preset}", columns, tuple(rows), note)
