"""Scores of finished runs by one metric, on every axis and under every preset to which it applies."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.analysis.cells import Cell, estimate, mean
from kgedit.analysis.groups import comparable_groups
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Column, Table, metric_unit, preset_names
from kgedit.records.cases import AXES


def metric_table(runs: Sequence[Run], metric: str, *, note: str) -> Table:
    """One row per run, preset and axis; no rows if the metric scored nothing.

    Args:
        metric: Name of the metric.
        note: Description of the metric.
    """
    rows: list[tuple[Cell, ...]] = []
    for run in runs:
        for preset in preset_names([run]):
            for axis in AXES:
                before, after = (run.pooled(stage, axis, preset).get(metric) for stage in ("before", "own"))
                if before or after:
                    named = after or before
                    who = (run.folder.name, run.spec.method, preset, axis)
                    rows.append((*who, mean(before), estimate(after), named.n if named else None))
    unit = metric_unit(runs, metric)
    columns = (
        *(Column(name, key=True) for name in ("run", "method", "preset", "axis")),
        Column("before", unit),
        Column("after", unit, heading="after [95 %]"),
        Column("n", "count"),
    )
    if unit == "percent":
        note += " Mean in %."
    if len(comparable_groups(runs)) > 1:
        note += " These runs differ in cases, model, training format or presets: do not rank them together."
    return Table(metric, columns, tuple(rows), note)
