"""Bleedover: loss of probability of facts that an edit must not change, for nearest and for random neighbours.

Also by popularity and similarity of the neighbour (WikiFactDiff, figure 2), in quarters of the questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import Booleans, estimate_of, rows_of
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Column, Table
from kgedit.clustered_statistics import Floats
from kgedit.records.cases import LOCALITY_AXES, Axis

NEIGHBOUR_BREAKDOWNS = ("neighbour_similarity", "neighbour_popularity")
"""Breakdowns of bleedover."""

_NAMES: Mapping[Axis, str] = {"locality": "nearest", "random_locality": "random"}
PARTS = ("lowest fourth", "second", "third", "highest fourth")
"""Names of the quarters returned by `fourths`."""

_LEAST = 4
"""Answers with a known value that a table of fourths needs: one in each."""


def bleedover_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Mean loss of probability with its interval, on nearest and on random neighbours; None if not measured."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        for axis in LOCALITY_AXES:
            asked = measured(run, axis, preset)
            if len(asked):
                rows.append(
                    (number, run.spec.method, _NAMES[axis], len(asked), _estimate(asked), *_around(run, axis, preset))
                )
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("neighbours", key=True),
        Column("n", "count"),
        Column("bleedover", "percent", heading="bleedover [95 %]"),
        Column("P before", "percent"),
        Column("P after", "percent"),
    )
    note = (
        "Mean of max(0, P before any edit less P after) of a neighbour's own answer, in % (WikiFactDiff, table 7) with "
        "its 95 % interval clustered by relation. nearest: of the edited relation, about similar subjects, if "
        "the timestep has any. random: drawn from the neighbours of all edits."
    )
    return Table(f"Bleedover, preset {preset}", columns, tuple(rows), note)


def _around(run: Run, axis: Axis, preset: str) -> tuple[Cell, Cell]:
    before, after = (run.pooled(stage, axis, preset).get("probability") for stage in ("before", "own"))
    return before.mean if before else None, after.mean if after else None


def bleedover_split_table(
    runs: Sequence[Run], by: str, *, preset: str, counts: Mapping[str, int] | None = None
) -> Table | None:
    """Bleedover by quarters of a property of the neighbour; None if too few neighbours have it.

    Args:
        by: One of NEIGHBOUR_BREAKDOWNS.
        counts: Label or id of a neighbour -> popularity, which replaces that of the timestep.
    """
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        for axis in LOCALITY_AXES:
            asked = measured(run, axis, preset)
            values = neighbour_values(asked, by, counts)
            known = ~np.isnan(values)
            if known.sum() < _LEAST or np.ptp(values[known]) == 0:
                continue
            parts = [_estimate(asked.filter(pa.array(part))) for part in fourths(values)]
            rows.append((number, run.spec.method, _NAMES[axis], int(known.sum()), *parts))
    if not rows:
        return None
    name = by.partition("_")[2]
    columns = (
        *METHOD,
        Column("neighbours", key=True),
        Column("n", "count"),
        *(Column(part, "percent", with_counts=True) for part in PARTS),
    )
    source = "counts that were given" if by == "neighbour_popularity" and counts else "the timestep"
    note = (
        f"Bleedover in % of probability with its 95 % interval, by fourths of the neighbours' {name} (from {source}), "
        "equals in the same one. After figure 2 of WikiFactDiff, without its normalization."
    )
    return Table(f"Bleedover by {name} of the neighbour, preset {preset}", columns, tuple(rows), note)


def measured(run: Run, axis: Axis, preset: str) -> pa.Table:
    """Answers after a timestep's own edits that have a bleedover."""
    rows = rows_of(run, "own", axis, preset)
    return rows.filter(pc.field("bleedover").is_valid())


def _estimate(asked: pa.Table) -> Estimate | None:
    return estimate_of(asked["bleedover"].to_numpy(), np.array(asked["relation"].to_pylist(), dtype=np.str_))


def neighbour_values(asked: pa.Table, by: str, counts: Mapping[str, int] | None) -> Floats:
    """Property of each neighbour; NaN if unknown."""
    if by == "neighbour_popularity" and counts:
        pairs = zip(asked["neighbour"].to_pylist(), asked["neighbour_label"].to_pylist(), strict=True)
        found = [counts.get(name, counts.get(label)) for name, label in pairs]
        return np.array([np.nan if count is None else count for count in found], dtype=np.float64)
    column = asked[by.partition("_")[2]]
    values: Floats = pc.fill_null(column, float("nan")).to_numpy().astype(np.float64)
    return values


def fourths(values: Floats) -> list[Booleans]:
    """Masks of the quarters of the known values; equal values are in the same quarter."""
    known = np.sort(values[~np.isnan(values)])
    low, high = np.searchsorted(known, values, "left"), np.searchsorted(known, values, "right")
    # Mid-rank among equal values, which is below the number of values.
    fourth = np.where(np.isnan(values), -1, len(PARTS) * (low + high) // 2 // len(known))
    return [fourth == number for number in range(len(PARTS))]
