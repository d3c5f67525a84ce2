"""What finished runs got by one metric, on every axis and under every preset that it judges."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import NOTHING, Column, Table, preset_names
from kgedit.records.cases import AXES
from kgedit.records.scores import Score


def metric_table(runs: Sequence[Run], metric: str, *, note: str) -> Table:
    """A row for each run, preset and axis; none where the metric judged nothing.

    Args:
        metric: Its name.
        note: What it is.
    """
    rows = []
    for run in runs:
        for preset in preset_names([run]):
            for axis in AXES:
                before, after = (run.pooled(stage, axis, preset).get(metric) for stage in ("before", "own"))
                if before or after:
                    who = (run.folder.name, run.spec.method, preset, axis)
                    rows.append((*who, _mean(before), _mean(after), _interval(after), _count(after or before)))
    words = (Column(name, number=False, key=True) for name in ("run", "method", "preset", "axis"))
    numbers = (Column(name) for name in ("before", "after", "95 % interval", "n"))
    return Table(metric, (*words, *numbers), tuple(rows), note)


def _mean(score: Score | None) -> str:
    return f"{score.mean:.4g}" if score else NOTHING


def _interval(score: Score | None) -> str:
    if score is None or score.low is None or score.high is None:
        return NOTHING
    return f"{score.low:.4g}–{score.high:.4g}"


def _count(score: Score | None) -> str:
    return f"{score.n:,}" if score else NOTHING
