"""Editing over several timesteps: accuracy matrix, forgetting, means over timesteps, and collapse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import pstdev

from kgedit.analysis.cells import Cell
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import (
    METHOD,
    Column,
    Table,
    dates,
    main_score,
    metrics_of,
    preset_change_unit,
    preset_unit,
)
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import ModelState
from kgedit.records.scores import Retention, Score

COLLAPSED = 0.5
"""A collapsed method never again exceeds this share of its best score so far."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A score after a number of edits.

    Attributes:
        edits: Number of edits applied to the model.
        value: The score.
    """

    edits: int
    value: float


def retention_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Accuracy matrices of runs over several timesteps; None if there are none."""
    runs_of_many = [run for run in runs if any(_asked_again(item) for item in run.scores.retention)]
    steps = list(dict.fromkeys(step for run in runs_of_many for step in run.scores.timesteps))
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        column = {step: index for index, step in enumerate(run.scores.timesteps)}
        for item in run.scores.retention:
            if item.preset == preset and _asked_again(item):
                for index, row in enumerate(item.matrix):
                    cells = (row[column[step]] if step in column else None for step in steps)
                    after = dates(run.scores.timesteps[index])
                    rows.append((number, run.spec.method, item.axis, after, *cells))
    if not rows:
        return None
    columns = (*METHOD, Column("axis", key=True), Column("after", key=True))
    note = "Row: the last timestep learned; column: the timestep asked; " + metrics_of(runs, preset) + "."
    asked = tuple(Column(f"on {dates(step)}", preset_unit(runs, preset)) for step in steps)
    return Table(f"Accuracy over timesteps, preset {preset}", (*columns, *asked), tuple(rows), note)


def _asked_again(item: Retention) -> bool:
    return any(cell is not None for index, row in enumerate(item.matrix) for cell in row[:index])


def lifelong_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Mean and spread over timesteps, forgetting and backward transfer; None without runs of several timesteps."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        summaries = {item.axis: item for item in run.scores.retention if item.preset == preset}
        for axis in AXES:
            own = _own_scores(run, axis, preset)
            if len(own) > 1:
                rows.append((number, run.spec.method, axis, *_summary(list(own.values()), summaries.get(axis))))
    if not rows:
        return None
    names = ("weighted mean", "spread", "lowest", "highest")
    unit, change = preset_unit(runs, preset), preset_change_unit(runs, preset)
    columns = (
        *METHOD,
        Column("axis", key=True),
        Column("timesteps", "count", heading="steps"),
        *(Column(name, unit) for name in names),
        Column("forgetting", change),
        Column("backward transfer", change),
    )
    note = (
        f"{metrics_of(runs, preset)}, each timestep right after its own edits. Weighted mean: by questions; spread: "
        "standard deviation over timesteps, unweighted. Forgetting: best score so far less the last one, backward "
        "transfer: last score less the one right after the edits, means over all timesteps but the last "
        "(needs --evaluate-earlier)."
    )
    return Table(f"Over timesteps, preset {preset}", columns, tuple(rows), note)


def _own_scores(run: Run, axis: Axis, preset: str) -> dict[str, Score]:
    """Main score of each timestep, in order, directly after its own edits."""
    return {
        score.timestep: score
        for score in run.scores.scores
        if score.timestep and score.main and (score.stage, score.axis, score.preset) == ("own", axis, preset)
    }


def _summary(scores: Sequence[Score], retention: Retention | None) -> tuple[Cell, ...]:
    means = [score.mean for score in scores]
    return (
        len(means),
        _weighted(scores),
        pstdev(means),
        min(means),
        max(means),
        retention.forgetting if retention else None,
        retention.backward_transfer if retention else None,
    )


def _weighted(scores: Sequence[Score]) -> float:
    return sum(score.mean * score.n for score in scores) / sum(score.n for score in scores)


def collapse_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Number of edits at which update accuracy collapses; None if no run was evaluated after several numbers."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        points = edit_curve(run, preset)
        if len(points) < 2:
            continue
        before = main_score(run.pooled("before", "update", preset))
        best = max(points, key=lambda point: point.value)
        rows.append(
            (
                *(number, run.spec.method, len(points), before.mean if before else None),
                *(best.value, best.edits, points[-1].value, points[-1].edits),
                _edits_or_none(collapse_point(points)),
                _edits_or_none(falls_to(points, before.mean)) if before else None,
            )
        )
    if not rows:
        return None
    unit = preset_unit(runs, preset)
    columns = (
        *METHOD,
        Column("measured", "count"),
        Column("unedited", unit),
        *(Column("best", unit), Column("best at edits", "count")),
        *(Column("last", unit), Column("last at edits", "count")),
        Column("collapse at edits", "count"),
        Column("down to unedited at edits", "count"),
    )
    note = (
        f"Update score ({metrics_of(runs, preset)}) of what had been edited and was asked at each number of edits. "
        f"Collapse: the first measured number of edits from which on the score never again is above {COLLAPSED:.0%} of "
        "the best one before. Down to unedited: from which on it never again is above that of the unedited model. "
        "never: not by the last measurement."
    )
    return Table(f"Collapse, preset {preset}", columns, tuple(rows), note)


def _edits_or_none(point: Measured | None) -> Cell:
    return "never" if point is None else point.edits


def edit_curve(run: Run, preset: str) -> list[Measured]:
    """Update score after each evaluated number of edits, over all edited questions evaluated there.

    Empty under "single", which undoes every edit.
    """
    if run.spec.protocol == "single":
        return []
    # A run may evaluate a sample of its edits. Runs of earlier versions have no table of cases, and evaluated all.
    edited = Counter(run.cases["timestep"].to_pylist())
    sizes = {name: edited[name] or score.n for name, score in _own_scores(run, "update", preset).items()}
    order = [timestep for timestep in run.scores.timesteps if timestep in sizes]
    by_state: dict[ModelState, list[Score]] = {}
    for score in run.scores.scores:
        state = score.model_state
        asked = score.main and (score.axis, score.preset) == ("update", preset)
        if state and asked and score.stage in ("own", "partial", "retained") and state.timestep in sizes:
            by_state.setdefault(state, []).append(score)
    return sorted(
        (Measured(_edits_at(state, order, sizes), _weighted(scores)) for state, scores in by_state.items()),
        key=lambda point: point.edits,
    )


def _edits_at(state: ModelState, order: Sequence[str], sizes: Mapping[str, int]) -> int:
    timestep = str(state.timestep)
    earlier = sum(sizes[name] for name in order[: order.index(timestep)])
    return earlier + (sizes[timestep] if state.edits is None else state.edits)


def collapse_point(points: Sequence[Measured], *, share: float = COLLAPSED) -> Measured | None:
    """First point from which on no score exceeds a share of the best score before that point.

    Args:
        points: Points in the order of edits.
        share: Share in (0, 1).

    Returns:
        None if there is no such point. The first point has no predecessor and never qualifies.
    """
    best = 0.0
    for index, point in enumerate(points):
        if best > 0 and all(later.value <= share * best for later in points[index:]):
            return point
        best = max(best, point.value)
    return None


def falls_to(points: Sequence[Measured], level: float) -> Measured | None:
    """First point from which on no score exceeds a level; None if the last score does."""
    found = None
    for point in reversed(points):
        if point.value > level:
            break
        found = point
    return found
