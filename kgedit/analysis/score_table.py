"""Scores of finished runs: as one numeric table, and by one metric on every axis and under every preset."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kgedit.analysis.cells import Cell, estimate, mean
from kgedit.analysis.runs import Run, comparable_groups
from kgedit.analysis.tables import Column, Table, metric_unit, preset_names
from kgedit.records.cases import AXES

SCORES = pa.schema(
    [
        ("run", pa.string()),
        ("model", pa.string()),
        ("method", pa.string()),
        ("protocol", pa.string()),
        ("seed", pa.int64()),
        ("train_context", pa.string()),
        ("cases_sha256", pa.string()),
        ("stage", pa.string()),
        ("edited_timestep", pa.string()),
        ("edits", pa.int64()),
        ("timestep", pa.string()),
        ("axis", pa.string()),
        ("preset", pa.string()),
        ("metric", pa.string()),
        ("main", pa.bool_()),
        ("is_share", pa.bool_()),
        ("n", pa.int64()),
        ("relations", pa.int64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
"""run: folder of the run. train_context and cases_sha256: scores are comparable if these and the model are equal.
edited_timestep and edits are the timestep and edits of the `ModelState` (kgedit.records.runs), null if timesteps are
pooled. is_share: whether the metric is a share or a difference of shares, so that 1 means 100 %. The columns from stage
on are the fields of a `Score` (kgedit.records.scores)."""

_OF_SCORE = [name for name in SCORES.names[SCORES.names.index("timestep") :] if name != "is_share"]


def score_table(runs: Sequence[Run]) -> pa.Table:
    """All scores of all runs, in the order of the runs."""
    rows = [
        {
            "run": str(run.folder),
            "model": run.model,
            "method": run.spec.method,
            "protocol": run.spec.protocol,
            "seed": run.spec.seed,
            "train_context": run.spec.train_context,
            "cases_sha256": run.scores.cases_sha256,
            "stage": score.stage,
            "edited_timestep": score.model_state and score.model_state.timestep,
            "edits": score.model_state and score.model_state.edits,
            "is_share": run.scale_of(score.metric).is_share,
            **{name: getattr(score, name) for name in _OF_SCORE},
        }
        for run in runs
        for score in run.scores.scores
    ]
    return pa.Table.from_pylist(rows, schema=SCORES)


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
