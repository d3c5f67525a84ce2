"""Two-hop questions by retrieved facts, by the answers to their single hops, and by popularity of their entities.

The tables of popularity are those of WikiBigEdit, appendix B.2, figure 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import Booleans, Hashes, estimate_of, hashes_in, judged_rows, rows_of
from kgedit.analysis.breakdowns import Counts, group_order, tenths
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Cell, Column, Estimate, Table, dates, metrics_of, preset_scale, preset_unit
from kgedit.clustered_statistics import Floats, Integers
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


_ENTITIES = (("first subject", "subject", 0), ("middle", "object", 0), ("answer", "object", 1))
"""Entities of a chain subject -> middle -> answer: name, part of a case, and index of the case."""


@dataclass(frozen=True, slots=True)
class _Chains:
    """Two-hop questions whose single hops were also evaluated on the same model.

    Attributes:
        hops: Indices of both hops in the run's cases, shape (2, questions).
        values: Scores of first hop, second hop and two-hop question by the preset's metric, shape (3, questions).
        relations: Relation of the first hop.
    """

    hops: Integers
    values: Floats
    relations: np.ndarray[tuple[int], np.dtype[np.str_]]


def specificity_table(runs: Sequence[Run], by: str, *, preset: str, counts: Counts | None = None) -> Table | None:
    """Scores of both single hops and of the two-hop question, by tenths of one entity's count or views.

    Args:
        by: "two_hop_count" or "two_hop_views".
        counts: Label or id -> count. If not given, and for views, values are taken from the cases where known.

    Returns:
        None if no model was evaluated on a two-hop question and both of its hops.
    """
    measure = by.removeprefix("two_hop_")
    scale = preset_scale(runs, preset)
    rows: list[tuple[Cell, ...]] = []
    for who, run, chains in _states(runs, preset):
        for name, part, hop in _ENTITIES:
            known = _known(run.cases, part, measure, counts or {})
            groups = np.array(tenths([known[index] for index in chains.hops[hop]]))
            for group in sorted(set(groups), key=group_order):
                rows.append((*who, name, str(group), *_cells(chains, groups == group, scale)))
    if not rows:
        return None
    columns = (
        *(*METHOD, Column("entity", key=True), Column("tenth", key=True), Column("n", "count")),
        *(Column(name, preset_unit(runs, preset)) for name in ("first hop", "second hop", "two hops")),
    )
    what = "counts in a corpus" if measure == "count" else "page views"
    note = (
        f"{metrics_of(runs, preset)} with the 95 % interval clustered by relation. Tenths of the two-hop questions by "
        f"{what} of the first subject, of the entity in the middle (object of the first hop and subject of the "
        "second) and of the answer, 1 the rarest, which is the most specific. First and second hop: the same model "
        "asked for each fact alone. Only questions whose second fact is an edit too; edited models not under the "
        "protocol single."
    )
    return Table(f"Two hops by {what}, preset {preset}", columns, tuple(rows), note)


def _states(runs: Sequence[Run], preset: str) -> Iterator[tuple[tuple[Cell, ...], Run, _Chains]]:
    """Identity of a row, its run and the questions: once for the unedited model, then for each edited one."""
    # Before any edit, all runs of a group have the same model: one is enough.
    unedited = next(((run, found) for run in runs if (found := _chains(run, "before", preset))), None)
    if unedited:
        yield (None, "unedited"), *unedited
    for number, run in enumerate(runs, start=1):
        edited = None if run.spec.protocol == "single" else _chains(run, "own", preset)
        if edited:
            yield (number, run.spec.method), run, edited


def _chains(run: Run, stage: EvaluationStage, preset: str) -> _Chains | None:
    if not len(run.cases):
        return None
    hops = rows_of(run, stage, "update", preset)
    hops = hops.filter(pc.field("value").is_valid()).sort_by("case")
    asked = rows_of(run, stage, "mhop", preset)
    asked = asked.filter(pc.field("second_case").is_valid() & pc.field("value").is_valid())
    known, cases = hashes_in(hops, "case"), hashes_in(run.cases, "case")
    both = np.array([hashes_in(asked, name) for name in ("case", "second_case")])
    asked = asked.filter(pa.array((np.isin(both, known) & np.isin(both, cases)).all(axis=0))).sort_by("question")
    if not len(asked):
        return None
    judged, both = judged_rows(asked), np.array([hashes_in(asked, name) for name in ("case", "second_case")])
    alone = hops["value"].to_numpy()[np.searchsorted(known, both)]
    order = np.argsort(cases)
    return _Chains(
        hops=order[np.searchsorted(cases, both, sorter=order)],
        values=np.vstack([alone, judged.values]),
        relations=judged.relations,
    )


def _known(cases: pa.Table, part: str, measure: str, counts: Counts) -> list[float | None]:
    """Count or views of each case's subject or object."""
    if counts and measure == "count":
        pairs = zip(cases[part].to_pylist(), cases[f"{part}_label"].to_pylist(), strict=True)
        return [counts.get(entity, counts.get(label)) for entity, label in pairs]
    column = f"{part}_{measure}"
    return cases[column].to_pylist() if column in cases.column_names else [None] * len(cases)


def _cells(chains: _Chains, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], scale: MetricScale) -> list[Cell]:
    relations = chains.relations[chosen]
    return [int(chosen.sum()), *(estimate_of(values[chosen], relations, scale) for values in chains.values)]
