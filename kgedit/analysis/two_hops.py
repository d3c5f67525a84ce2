"""Two-hop questions by retrieved facts, and by the answers to their single hops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import Booleans, Hashes, estimate_of, rows_of
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table, dates, metrics_of, preset_scale, preset_unit
from kgedit.records.scores import EvaluationStage, MetricScale

_PARTS = ("neither", "first only", "second only", "both")


def retrieval_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Frequency with which retrieval methods found the facts that a question needs; None if no run uses retrieval."""
    rows = tuple(
        (
            *(number, run.spec.method, item.axis, dates(item.last_timestep), dates(item.timestep), item.n),
            *(item.first_hop, item.second_hop, item.both_hops, item.accuracy_when_found),
        )
        for number, run in enumerate(runs, start=1)
        for item in run.scores.retrieval
        if item.preset == preset
    )
    if not rows:
        return None
    words = (Column(name, key=True) for name in ("axis", "after", "asked on"))
    numbers = (
        *(Column(name, "percent") for name in ("first hop", "second hop", "both hops")),
        Column("right when found", preset_unit(runs, preset)),
    )
    note = "Share of questions whose prompt held the case of the first hop, of the second, of both; in %."
    return Table(f"Retrieval, preset {preset}", (*METHOD, *words, Column("n", "count"), *numbers), rows, note)


def found_hops_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Two-hop score by which of the two facts were in the prompt; None if no run uses retrieval."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        if not run.scores.retrieval:
            continue
        asked = rows_of(run, "own", "mhop", preset)
        asked = asked.filter(pc.field("second_case").is_valid() & pc.field("value").is_valid())
        if len(asked):
            first, second = (asked[name].to_numpy() for name in ("first_found", "second_found"))
            scale = preset_scale([run], preset)
            rows.append((number, run.spec.method, len(asked), *_by_part(asked, first, second, scale)))
    if not rows:
        return None
    unit = preset_unit(runs, preset)
    columns = (*METHOD, Column("n", "count"), *(Column(part, unit, with_counts=True) for part in _PARTS))
    note = (
        f"Score of two-hop questions ({metrics_of(runs, preset)}) with the 95 % interval, by which of its two facts "
        "the prompt held. Only questions whose second fact is an edit too."
    )
    return Table(f"Two hops by what was found, preset {preset}", columns, tuple(rows), note)


def single_hops_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Two-hop score by which single hops the same model answers; None if no run evaluated both.

    A shortcut is a two-hop question answered correctly by a model that gets one of its hops wrong (WikiBigEdit, B.2).
    """
    rows: list[tuple[Cell, ...]] = []
    # Before any edit, all runs of a group have the same model: one row is enough.
    unedited = next((cells for run in runs if (cells := _single_hops(run, "before", preset))), None)
    if unedited:
        rows.append((None, "unedited", *unedited))
    for number, run in enumerate(runs, start=1):
        cells = None if run.spec.protocol == "single" else _single_hops(run, "own", preset)
        if cells:
            rows.append((number, run.spec.method, *cells))
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("n", "count"),
        *(Column(part, preset_unit(runs, preset), with_counts=True) for part in _PARTS),
        Column("shortcuts", "percent"),
    )
    note = (
        f"Score of two-hop questions ({metrics_of(runs, preset)}, 95 % interval) by which of its two hops the "
        "same model answers right as update questions. Shortcuts: of the two-hop questions answered right, those with "
        "a hop answered wrong. Only questions whose second fact is an edit too; not under the protocol single, where "
        "the model never has both edits."
    )
    return Table(f"Two hops against single hops, preset {preset}", columns, tuple(rows), note)


def _single_hops(run: Run, stage: EvaluationStage, preset: str) -> tuple[Cell, ...] | None:
    updates = rows_of(run, stage, "update", preset)
    updates = updates.filter(pc.field("right").is_valid()).sort_by("case")
    asked = rows_of(run, stage, "mhop", preset)
    asked = asked.filter(pc.field("second_case").is_valid() & pc.field("right").is_valid())
    known, right = updates["case"].to_numpy(), updates["right"].to_numpy()
    both_known = _among(asked["case"].to_numpy(), known) & _among(asked["second_case"].to_numpy(), known)
    asked = asked.filter(pa.array(both_known))
    if not len(asked):
        return None
    first, second = (right[np.searchsorted(known, asked[name].to_numpy())] for name in ("case", "second_case"))
    solved = asked["right"].to_numpy()
    shortcuts = float((solved & ~(first & second)).sum() / solved.sum()) if solved.any() else None
    return (len(asked), *_by_part(asked, first, second, preset_scale([run], preset)), shortcuts)


def _among(hashes: Hashes, known: Hashes) -> Booleans:
    return np.isin(hashes, known)


def _by_part(asked: pa.Table, first: Booleans, second: Booleans, scale: MetricScale) -> list[Estimate | None]:
    values = asked["value"].to_numpy()
    relations = np.array(asked["relation"].to_pylist(), dtype=np.str_)
    parts = (~first & ~second, first & ~second, ~first & second, first & second)
    return [estimate_of(values[part], relations[part], scale) for part in parts]
