"""Follows each batch of a sequential run through later edits (Mirage, section 7.2, figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import Hashes, estimate_of, hashes_in
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table, metrics_of, preset_scale, preset_unit
from kgedit.clustered_statistics import Integers

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
        at=_edits_at(rows, sizes),
        edit=_order(hashes_in(run.cases), hashes_in(rows)),
        value=rows["value"].to_numpy(),
        relation=np.array(rows["relation"].to_pylist(), dtype=np.str_),
    )


def _edits_at(rows: pa.Table, sizes: dict[str, int]) -> Integers:
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
