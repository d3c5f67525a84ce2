"""Results in WikiFactDiff's layout: table 6, the numbers of figure 2, bleedover, and scenarios with separate scores.

Bleedover is the loss of probability of facts that an edit must not change, for nearest and for random neighbours, and
by popularity and similarity of the neighbour (figure 2), in quarters of the questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import Booleans, estimate_of, rows_of
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import METHOD, Cell, Column, Estimate, Table, estimate, presets_of, who
from kgedit.clustered_statistics import Floats
from kgedit.records.answer_table import SCENARIO_SCORES
from kgedit.records.cases import AXES, LOCALITY_AXES, Axis
from kgedit.records.scores import EvaluationStage, MetricScale

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
                    (
                        number,
                        run.spec.method,
                        _NAMES[axis],
                        len(asked),
                        _estimate_asked(asked),
                        *_around(run, axis, preset),
                    )
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
            parts = [_estimate_asked(asked.filter(pa.array(part))) for part in fourths(values)]
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


def _estimate_asked(asked: pa.Table) -> Estimate | None:
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


_MEASURES: tuple[tuple[str, Axis, str], ...] = (
    ("efficacy D", "update", "probability_difference"),
    ("efficacy S", "update", "probability_success"),
    ("generalization D", "rephrase", "probability_difference"),
    ("generalization S", "rephrase", "probability_success"),
    ("bleedover random", "random_locality", "bleedover"),
    ("bleedover nearest", "locality", "bleedover"),
)
"""Column, axis and metric, in the order of the paper."""

_FLUENCY = "ngram_entropy"
_UNEDITED = "unedited"
_RATIO = MetricScale(minimum=0.0, maximum=None, higher_is_better=False)
"""A neighbour's bleedover divided by the mean of its method."""

ALL = "all"
"""Name of the row and column over all neighbours."""


def wikifactdiff_table(runs: Sequence[Run]) -> Table | None:
    """Table 6: efficacy, generalization, bleedover, fluency and time of each run, the unedited model first.

    Returns:
        None if no run was evaluated on clozes under teacher forcing, as in the paper.
    """
    presets = presets_of(runs)
    cloze = next((one.name for one in presets if one.wording == "cloze" and one.is_forced), None)
    if cloze is None:
        return None
    text = next((one.name for one in presets if one.metric == _FLUENCY), None)
    identity = who(runs)
    before = next((cells for run in runs if any(cells := _measures(run, "before", cloze, text))), None)
    rows = [
        (*cells, *_measures(run, "own", cloze, text), run.seconds_per_edit)
        for run, cells in zip(runs, identity.cells, strict=True)
    ]
    blanks: tuple[Cell, ...] = (None,) * (len(identity.columns) - 2)
    first: list[tuple[Cell, ...]] = [(None, _UNEDITED, *blanks, *before, None)] if before else []
    columns = (
        *identity.columns,
        *(Column(name, "percent") for name, _, _ in _MEASURES),
        Column("fluency", "plain"),
        Column("s/edit", "seconds"),
    )
    note = (
        f"After table 6 of WikiFactDiff, preset {cloze}, right after each timestep's edits; shares in % with 95 % "
        "intervals clustered by relation (the paper's take updates as independent). D: P of the new answer less P of "
        "the old one; S: whether it is greater; generalization: over the other clozes. Bleedover: lost probability of "
        "neighbours' answers, less is better. Fluency: ngram_entropy in bits on the paper's scale"
        + (f", preset {text}." if text else "; add --preset cloze_text for it.")
    )
    return Table("WikiFactDiff's results", columns, (*first, *rows), note)


def _measures(run: Run, stage: EvaluationStage, cloze: str, text: str | None) -> tuple[Cell, ...]:
    found = [estimate(run.pooled(stage, axis, cloze).get(metric)) for _, axis, metric in _MEASURES]
    fluency = run.pooled(stage, "rephrase", text).get(_FLUENCY) if text else None
    return *found, estimate(fluency)


def neighbours_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Figure 2: bleedover on nearest neighbours by quarters of similarity and of popularity, averaged over methods.

    Each method's bleedover is first divided by its own mean, so that 1 is the average and methods with much damage do
    not dominate.

    Returns:
        None if no method has bleedover, or the neighbours' similarity or popularity is unknown or constant.
    """
    values, relations, similarity, popularity = [], [], [], []
    for run in runs:
        asked = measured(run, "locality", preset)
        lost = asked["bleedover"].to_numpy() if len(asked) else np.zeros(0)
        if not lost.any():
            continue
        values.append(lost / lost.mean())
        relations.append(np.array(asked["relation"].to_pylist(), dtype=np.str_))
        similarity.append(neighbour_values(asked, "neighbour_similarity", None))
        popularity.append(neighbour_values(asked, "neighbour_popularity", None))
    if not values:
        return None
    near, read = np.concatenate(similarity), np.concatenate(popularity)
    known = ~np.isnan(near) & ~np.isnan(read)
    if not known.any() or np.ptp(near[known]) == 0 or np.ptp(read[known]) == 0:
        return None
    ratios, clusters = np.concatenate(values)[known], np.concatenate(relations)[known]
    everything = np.ones(int(known.sum()), dtype=np.bool_)
    by_similarity = zip((ALL, *PARTS), (everything, *fourths(near[known])), strict=True)
    by_popularity = (everything, *fourths(read[known]))
    rows = tuple(
        (name, *(_mean(ratios[row & column], clusters[row & column]) for column in by_popularity))
        for name, row in by_similarity
    )
    columns = (
        Column("similarity", key=True),
        *(Column(name, "plain", heading=f"popularity: {name}", with_counts=True) for name in (ALL, *PARTS)),
    )
    note = (
        f"Mean over {len(values)} methods of a nearest neighbour's bleedover, each divided by its method's mean: 1 is "
        "average, above it more is lost. Rows: fourths of the cosine to the edited subject; columns: fourths of the "
        "neighbour's popularity; equals in the same one; 95 % intervals clustered by relation. After figure 2 of "
        "WikiFactDiff."
    )
    return Table(f"Bleedover by similarity and popularity of the neighbour, preset {preset}", columns, rows, note)


def _mean(ratios: Floats, clusters: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Estimate | None:
    found = estimate_of(ratios, clusters, _RATIO)
    # With few clusters the interval can extend below 0, which is not a possible loss.
    return found and (found if found.low is None else replace(found, low=max(0.0, found.low)))


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
