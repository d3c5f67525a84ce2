"""Two-hop questions by popularity of their entities (WikiBigEdit, appendix B.2, figure 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import estimate_of, hashes_in, judged_rows, rows_of
from kgedit.analysis.breakdowns import Counts, group_order, tenths
from kgedit.analysis.cells import Cell
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table, metrics_of, preset_scale, preset_unit
from kgedit.clustered_statistics import Floats, Integers
from kgedit.records.scores import EvaluationStage, MetricScale

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
