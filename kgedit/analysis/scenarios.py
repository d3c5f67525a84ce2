"""WikiFactDiff's scenarios with separate scores: added facts and archived facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import estimate_of, rows_of
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table
from kgedit.records.answer_table import SCENARIO_SCORES
from kgedit.records.cases import AXES
from kgedit.records.scores import MetricScale


def scenarios_table(runs: Sequence[Run], preset: str) -> Table | None:
    """One row per run, scenario and axis with the scenario's scores; None if there are no such cases."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        for axis in AXES:
            asked = rows_of(run, "own", axis, preset)
            for scenario in sorted(set(asked["scenario"].drop_null().to_pylist())):
                own = asked.filter(pc.field("scenario") == scenario)
                scores = [_estimate(own, name, run.scale_of(name)) for name in SCENARIO_SCORES]
                if any(scores):
                    rows.append((number, run.spec.method, scenario, axis, len(own), *scores))
    if not rows:
        return None
    columns = (
        *(*METHOD, Column("scenario", key=True), Column("axis", key=True), Column("n", "count")),
        *(Column(name.replace("_", " "), "percent") for name in SCENARIO_SCORES),
    )
    note = (
        "In % with 95 % intervals clustered by relation; definitions and reasons: docs/reference/metrics.md. gain: of "
        "the new answer's probability. preferred: likelier than every alternative. static loss: of what stays right. "
        "archive drop: of the archived answer's standing against alternatives. archived: no likelier. replaced: rise "
        "of the likeliest alternative. Alternatives: of the relation, about as frequent, never right. Less is better "
        "for static loss and replaced."
    )
    return Table(f"Scenarios, preset {preset}", columns, tuple(rows), note)


def _estimate(asked: pa.Table, name: str, scale: MetricScale) -> Estimate | None:
    known = asked.filter(pc.field(name).is_valid())
    return estimate_of(known[name].to_numpy(), np.array(known["relation"].to_pylist(), dtype=np.str_), scale)
