"""Editing over several timesteps and batches: accuracy matrix, forgetting, means over timesteps, and collapse.

The table of batches follows each one through later edits (Mirage, section 7.2, figure 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from statistics import pstdev

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import Hashes, estimate_of, hashes_in
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import (
    METHOD,
    Cell,
    Column,
    Estimate,
    Table,
    dates,
    main_score,
    metrics_of,
    preset_change_unit,
    preset_scale,
    preset_unit,
)
from kgedit.clustered_statistics import Integers
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


_MOST_POINTS = 20
"""Maximum number of measurements shown; 1,000 edits evaluated after every 10 have 100, too many for a page."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """Update answers of a run, one entry per answer.

    Attributes:
        at: Number of edits applied when the question was evaluated.
        edit: Index of the edit that the question is about, in the order of editing.
        value: Score by the preset's own metric.
        relation: Relation of the edit.
    """

    at: Integers
    edit: Integers
    value: np.ndarray[tuple[int], np.dtype[np.float64]]
    relation: np.ndarray[tuple[int], np.dtype[np.str_]]


def batches_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Update score of each batch directly after it and at each later measurement.

    A batch consists of the edits between two measurements (`evaluate_every`, and the end of each timestep).

    Returns:
        None if no run evaluated the same edits after different numbers of edits.
    """
    found = {number: _measured(run, preset) for number, run in enumerate(runs, start=1)}
    shown = {number: _points(measured) for number, measured in found.items() if measured is not None}
    points = sorted({point for own in shown.values() for point in own})
    rows: list[tuple[Cell, ...]] = []
    for number, own in shown.items():
        run, measured = runs[number - 1], found[number]
        if measured is None or len(own) < 2:
            continue
        for first, last in pairwise((0, *own)):
            lasting = _lasting(measured, first, last, own)
            if len(lasting):
                cells = (_cell(measured, lasting, point, run, preset) if point in own else None for point in points)
                rows.append((number, run.spec.method, f"{first + 1:,}-{last:,}", len(lasting), *cells))
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("batch", key=True),
        Column("n", "count"),
        *(Column(f"after {point:,}", preset_unit(runs, preset)) for point in points),
    )
    note = (
        f"{metrics_of(runs, preset)} on the update questions of each batch, with the 95 % interval clustered by "
        "relation. Batch: the edits between two measurements (--evaluate-every); columns: edits so far. The first "
        "value of a row is right after its batch. n: its edits that were asked about each time; those that a later "
        f"timestep puts out of date are left out. Of more than {_MOST_POINTS} measurements as many are shown, evenly "
        "spaced, and batches reach from one to the next."
    )
    return Table(f"Batches followed, preset {preset}", columns, tuple(rows), note)


def _measured(run: Run, preset: str) -> _Measured | None:
    """None under `single`, which undoes every edit, and for runs of versions that did not record the order."""
    if run.spec.protocol != "sequential" or not len(run.cases):
        return None
    asked = (pc.field("axis") == "update") & (pc.field("preset") == preset) & pc.field("value").is_valid()
    rows = run.answers.filter(asked & pc.field("stage").isin(["partial", "own", "retained"]))
    if pc.sum(pc.equal(rows["stage"], "partial")).as_py() in (None, 0):
        return None
    sizes = {name: int(pc.sum(pc.equal(run.cases["timestep"], name)).as_py() or 0) for name in run.scores.timesteps}
    rows = rows.filter(pa.array(np.isin(hashes_in(rows), hashes_in(run.cases))))
    return _Measured(
        at=_edits_of_rows(rows, sizes),
        edit=_order(hashes_in(run.cases), hashes_in(rows)),
        value=rows["value"].to_numpy(),
        relation=np.array(rows["relation"].to_pylist(), dtype=np.str_),
    )


def _edits_of_rows(rows: pa.Table, sizes: dict[str, int]) -> Integers:
    """Number of edits of all timesteps that had been applied at each row."""
    names = list(sizes)
    before = np.cumsum([0, *sizes.values()])
    index = pc.index_in(rows["model_timestep"], pa.array(names)).to_numpy()
    own = rows["edits"].fill_null(-1).to_numpy()
    applied: Integers = before[index] + np.where(own < 0, np.array(list(sizes.values()))[index], own)
    return applied


def _order(cases: Hashes, asked: Hashes) -> Integers:
    """Index of each evaluated case in the order of editing."""
    order = np.argsort(cases)
    return order[np.searchsorted(cases, asked, sorter=order)]


def _points(measured: _Measured | None) -> list[int]:
    if measured is None:
        return []
    points = np.unique(measured.at)
    if len(points) > _MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, _MOST_POINTS).round().astype(int)]
    return [int(point) for point in points]


def _lasting(measured: _Measured, first: int, last: int, points: Sequence[int]) -> Integers:
    """Edits of a batch that were evaluated at every point where any of them was, so that rows compare equal sets."""
    batch = (measured.edit >= first) & (measured.edit < last)
    asked = [found for point in points if len(found := measured.edit[batch & (measured.at == point)])]
    return reduce(np.intersect1d, asked) if asked else np.zeros(0, dtype=np.int64)


def _cell(measured: _Measured, edits: Integers, point: int, run: Run, preset: str) -> Estimate | None:
    chosen = (measured.at == point) & np.isin(measured.edit, edits)
    return estimate_of(measured.value[chosen], measured.relation[chosen], preset_scale([run], preset))
