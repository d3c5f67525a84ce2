"""Scores by properties of an edit: relation, tag, kind of change, year, corpus counts of subject and object, hops.

MQuAKE (Zhong et al. 2023, section 4) counts a chain as answered if any of its wordings is; hop-wise accuracy counts a
chain if all of its facts are answered individually. Facts are split at a model's knowledge cutoff as in WikiBigEdit
(section 3.3, figure 2 b).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import estimate_of, estimates_by, rows_of
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import (
    COMPARED_STAGES,
    METHOD,
    Cell,
    Column,
    Estimate,
    MeanChange,
    Table,
    asked_axes,
    dates,
    metrics_of,
    preset_scale,
    preset_unit,
)
from kgedit.analysis.wikifactdiff import NEIGHBOUR_BREAKDOWNS, bleedover_split_table
from kgedit.errors import TimestepError
from kgedit.records.cases import SPECIFICITY, Axis
from kgedit.records.scores import EvaluationStage
from kgedit.yaml_files import load_yaml

Counts = Mapping[str, int]
"""Label or id -> number of mentions in a corpus, or of page views."""

LOCALITY_BASIS = "locality_basis"
"""Breakdown by how locality probes were found."""

SCENARIO = "scenario"
"""Breakdown by WikiFactDiff's scenario of a case."""

CUTOFF = "cutoff"
"""Breakdown by whether a fact is dated after the model's knowledge cutoff."""

TWO_HOP_BREAKDOWNS = ("two_hop_count", "two_hop_views")
"""Breakdowns of two-hop questions by popularity of their entities (kgedit.analysis.two_hops)."""

HOPS = "hops"
"""Name of the breakdown by number of hops."""

BREAKDOWNS = (
    *("relation", "tag", "kind", SCENARIO, "year", CUTOFF, "category", "popularity", *SPECIFICITY, LOCALITY_BASIS),
    HOPS,
    *NEIGHBOUR_BREAKDOWNS,
    *TWO_HOP_BREAKDOWNS,
)
"""All breakdowns. Names ending in _count need counts (from the timestep or elsewhere); those of neighbours apply to
bleedover."""

_STAGES: tuple[EvaluationStage, ...] = ("before", "own")
_UNKNOWN = "not known"
_DECILES = 10


def breakdown_table(runs: Sequence[Run], by: str, *, preset: str, counts: Counts | None = None) -> Table | None:
    """Scores before and after by one property of the cases; None if no run has its cases.

    Args:
        by: One of BREAKDOWNS, except those of two-hop questions.
        counts: For subject_count and object_count, which group cases into tenths, rarest first.
    """
    if by == LOCALITY_BASIS:
        return locality_table(runs, preset)
    if by == CUTOFF:
        return cutoff_table(runs, preset)
    if by == HOPS:
        return hops_table(runs, preset)
    if by in NEIGHBOUR_BREAKDOWNS:
        return bleedover_split_table(runs, by, preset=preset, counts=counts)
    asked = asked_axes(runs, preset)
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        groups = _groups(run, by, counts or {})
        sizes = Counter(groups.values())
        changes = {axis: _changes(run, axis, preset, groups) for axis in asked} if groups else {}
        for group in sorted({group for found in changes.values() for group in found}, key=group_order):
            shown = (changes[axis].get(group) for axis in asked)  # a question of an unknown case is in no group
            rows.append((number, run.spec.method, group, sizes[group], *shown))
    if not rows:
        return None
    rows.sort(key=lambda row: (group_order(str(row[2])), row[0]))
    name = by.replace("_", " ")
    columns = (
        *METHOD,
        Column(name, key=True),
        Column("cases", "count"),
        *(Column(axis, preset_unit(runs, preset)) for axis in asked),
    )
    note = (
        f"{metrics_of(runs, preset)}, before any edit → right after a timestep's own edits; 95 % interval clustered by "
        "relation. Answers about a single relation are taken as independent."
    )
    if by == "popularity":
        note += " Tenths of the cases by the subject's popularity in the timestep, 1 the lowest."
    if by in SPECIFICITY:
        note += f" {_tenths_note(by)}"
    if by == "year":
        note += "".join(f" Knowledge cutoff: {cutoff}." for cutoff in _cutoffs(runs))
    return Table(f"By {name}, preset {preset}", columns, tuple(rows), note)


def scenario_breakdown(runs: Sequence[Run], preset: str) -> Table | None:
    """Scores by scenario; None if no run has cases of several scenarios."""
    several = any(len(set(run.cases[SCENARIO].drop_null().to_pylist())) > 1 for run in runs)
    return breakdown_table(runs, SCENARIO, preset=preset) if several else None


def over_time_table(runs: Sequence[Run], by: str, *, preset: str, counts: Counts | None = None) -> Table | None:
    """Update scores by tenths of SPECIFICITY for each timestep (WikiBigEdit, figures 13 and 14).

    None if `by` is another breakdown, or no run has several timesteps.
    """
    timesteps = list(dict.fromkeys(step for run in runs for step in run.scores.timesteps))
    if by not in SPECIFICITY or len(timesteps) < 2:
        return None
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        groups = _groups(run, by, counts or {})
        steps = dict(zip(run.cases["case"].to_pylist(), run.cases["timestep"].to_pylist(), strict=True))
        found = {
            step: _changes(run, "update", preset, {case: name for case, name in groups.items() if steps[case] == step})
            for step in timesteps
        }
        tenth_names = {name for own in found.values() for name in own} - {_UNKNOWN}
        for name in sorted(tenth_names, key=group_order):
            rows.append((number, run.spec.method, name, *(found[step].get(name) for step in timesteps)))
    if not rows:
        return None
    name = by.replace("_", " ")
    unit = preset_unit(runs, preset)
    columns = (*METHOD, Column(name, key=True), *(Column(step, unit, heading=dates(step)) for step in timesteps))
    note = (
        f"Update, {metrics_of(runs, preset)}, before any edit → right after a timestep's own edits. {_tenths_note(by)}"
    )
    return Table(f"By {name} over timesteps, preset {preset}", columns, tuple(rows), note)


def _tenths_note(by: str) -> str:
    side, _, measure = by.partition("_")
    what = "views of the article of the" if measure == "views" else "counts in a corpus of the"
    return f"Tenths of the cases by {what} {side}, 1 the fewest."


def _cutoffs(runs: Sequence[Run]) -> list[str]:
    return sorted({run.knowledge_cutoff for run in runs if run.knowledge_cutoff})


def locality_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Locality before and after by how the probes were found; None if no run recorded it."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        asked = (rows_of(run, stage, "locality", preset) for stage in _STAGES)
        before, after = (_by_name(run, rows, "basis", preset) for rows in asked)
        for basis in sorted(after.keys() - {_UNKNOWN}):
            change = MeanChange(found.mean if (found := before.get(basis)) else None, after[basis])
            rows.append((number, run.spec.method, basis, after[basis].n, change))
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("basis", key=True),
        Column("n", "count"),
        Column("locality", preset_unit(runs, preset)),
    )
    note = (
        f"{metrics_of(runs, preset)}, before any edit → right after a timestep's own edits; 95 % interval clustered by "
        "relation. graph: the probe's subject shares rare facts with the edited one; label: their names are alike; "
        "relation: another relation of the same family, about a subject of the same class; changed: the fact became "
        "true in the window; nearest: most similar by WikiFactDiff's measure."
    )
    return Table(f"Locality by how the probe was found, preset {preset}", columns, tuple(rows), note)


def _groups(run: Run, by: str, counts: Counts) -> dict[int, str]:
    """Group of each case."""
    cases = run.cases
    if by.endswith("_count") and counts:
        names = tenths(_counted(cases, by.partition("_")[0], counts))
    elif by in SPECIFICITY:
        names = tenths(cases[by].to_pylist())
    elif by == "popularity":
        names = tenths(cases["popularity"].to_pylist())
    elif by == "relation":
        pairs = zip(cases["relation"].to_pylist(), cases["relation_label"].to_pylist(), strict=True)
        names = [f"{label} ({relation})" if label and label != relation else relation for relation, label in pairs]
    else:
        names = [_UNKNOWN if value is None else str(value) for value in cases[by].to_pylist()]
    return dict(zip(cases["case"].to_pylist(), names, strict=True))


def _counted(cases: pa.Table, part: str, counts: Counts) -> list[int | None]:
    pairs = zip(cases[part].to_pylist(), cases[f"{part}_label"].to_pylist(), strict=True)
    return [counts.get(entity, counts.get(label)) for entity, label in pairs]


def tenths(counts: Sequence[float | None]) -> list[str]:
    """Tenth of each count among the known counts, "1" being the lowest; equal counts are in the same tenth."""
    known = np.array(sorted(count for count in counts if count is not None))
    return [_UNKNOWN if count is None else _tenth(count, known) for count in counts]


def _tenth(count: float, known: np.ndarray[Any, Any]) -> str:
    # Mid-rank among equal counts, which is below the number of counts.
    low, high = np.searchsorted(known, count, "left"), np.searchsorted(known, count, "right")
    return str(1 + int(_DECILES * (low + high) / 2 / len(known)))


def _changes(run: Run, axis: Axis, preset: str, groups: Mapping[int, str]) -> dict[str, MeanChange]:
    before, after = (_by_group(run, stage, axis, preset, groups) for stage in ("before", "own"))
    names = dict.fromkeys((*before, *after))
    return {name: MeanChange(found.mean if (found := before.get(name)) else None, after.get(name)) for name in names}


def _by_group(run: Run, stage: Any, axis: Axis, preset: str, groups: Mapping[int, str]) -> dict[str, Estimate]:
    rows = rows_of(run, stage, axis, preset)
    names = pa.array([groups.get(case) for case in rows["case"].to_pylist()], pa.string())
    return _by_name(run, rows.append_column("group", names), "group", preset)


def _by_name(run: Run, rows: pa.Table, column: str, preset: str) -> dict[str, Estimate]:
    names = [_UNKNOWN if name is None else name for name in rows[column].to_pylist()]
    return estimates_by(rows, names, preset_scale([run], preset))


def group_order(group: str) -> tuple[int, int, str]:
    """Sort key: numbers by size, then words, unknown last."""
    if group == _UNKNOWN:
        return 2, 0, ""
    try:
        return 0, int(group), ""
    except ValueError:
        return 1, 0, group


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain at one stage: whether any wording is answered, and whether each of its facts is answered individually."""

    relation: str
    answered: bool
    hops: bool | None


def hops_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Multi-hop scores before and after by number of hops; None if no run evaluated any."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        before, after = (rows_of(run, stage, "mhop", preset) for stage in ("before", "own"))
        singles = {row["question"]: row["right"] for row in _columns(rows_of(run, "own", "hop", preset))}
        for hops in sorted(pc.unique(after["hops"]).drop_null().to_pylist()):
            asked = after.filter(pc.field("hops") == hops)
            earlier = _estimate(run, before.filter(pc.field("hops") == hops), preset)
            change = MeanChange(None if earlier is None else earlier.mean, _estimate(run, asked, preset))
            rows.append((number, run.spec.method, hops, len(asked), change, *_chain_cells(asked, singles)))
    if not rows:
        return None
    columns = (
        *METHOD,
        Column("hops", "count", key=True),
        Column("n", "count"),
        Column("mhop", preset_unit(runs, preset)),
        Column("chains", "count"),
        *(Column(name, "percent") for name in ("any wording", "all hops", "shortcuts")),
    )
    note = (
        f"mhop: {metrics_of(runs, preset)}, before any edit → right after a timestep's own edits; 95 % intervals "
        "clustered by relation. Of chains asked in several wordings: any wording: those with one answered right; all "
        "hops: those whose facts are all answered right when asked for alone; shortcuts: of the chains answered right, "
        "those with a fact answered wrong. n: questions."
    )
    return Table(f"By hops, preset {preset}", columns, tuple(rows), note)


def _chain_cells(asked: pa.Table, singles: dict[int, bool | None]) -> tuple[Cell, ...]:
    chains = _chains(asked, singles)
    judged = [chain for chain in chains if chain.hops is not None]
    solved = [chain for chain in judged if chain.answered]
    shortcuts = sum(not chain.hops for chain in solved) / len(solved) if solved else None
    return (
        len(chains) or None,
        _share([chain.answered for chain in chains], chains),
        _share([bool(chain.hops) for chain in judged], judged),
        shortcuts,
    )


def _chains(asked: pa.Table, singles: dict[int, bool | None]) -> list[_Chain]:
    """Chains among the rows of one stage whose wordings could be scored."""
    found: dict[int, _Chain] = {}
    for row in _columns(asked.filter(pc.field("chain").is_valid() & pc.field("right").is_valid())):
        known = [singles.get(question) for question in row["hop_questions"]]
        hops = all(known) if len(known) == row["hops"] and None not in known else None
        earlier = found.get(row["chain"])
        answered = row["right"] or (earlier is not None and earlier.answered)
        found[row["chain"]] = _Chain(row["relation"], answered, hops)
    return list(found.values())


def _columns(rows: pa.Table) -> list[dict[str, Any]]:
    names = ["question", "right", "relation", "chain", "hops", "hop_questions"]
    picked: list[dict[str, Any]] = rows.select(names).to_pylist()
    return picked


def _share(values: Sequence[bool], chains: Sequence[_Chain]) -> Estimate | None:
    relations = np.array([chain.relation for chain in chains], dtype=np.str_)
    return estimate_of(np.array(values, dtype=np.float64), relations)


def _estimate(run: Run, rows: pa.Table, preset: str) -> Estimate | None:
    judged = rows.filter(pc.field("value").is_valid())
    relations = np.array(judged["relation"].to_pylist(), dtype=np.str_)
    return estimate_of(judged["value"].to_numpy(), relations, preset_scale([run], preset))


_CUTOFFS = Path(__file__).parents[1] / "data" / "knowledge_cutoffs.yaml"
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


def read_cutoff(text: str) -> str:
    """Check a cutoff given by the user.

    Raises:
        TimestepError: if it is not a month.
    """
    if not _MONTH.fullmatch(text):
        raise TimestepError(f"'{text}' is not a month. Give the knowledge cutoff as YYYY-MM, such as 2023-09.")
    return text


def published_cutoff(model: str) -> str | None:
    """Cutoff of a published model as YYYY-MM, by its name on the hub or its folder; None if it is not listed."""
    return _published().get(model.rstrip("/").rpartition("/")[2].casefold())


@cache
def _published() -> dict[str, str]:
    # YAML reads an unquoted month as text, but an unquoted day as a date.
    rows = load_yaml(_CUTOFFS.read_text(encoding="utf-8"))
    return {name.casefold(): row["cutoff"] for row in rows for name in row["models"]}


def cutoff_table(runs: Sequence[Run], preset: str) -> Table | None:
    """Means before and after by date of the fact; None if no run has a cutoff and dated cases."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs, start=1):
        groups = cutoff_groups(run)
        sizes = Counter(groups.values())
        for axis in asked_axes([run], preset):
            found = [_estimates(run, stage, axis, preset, groups) for stage in COMPARED_STAGES]
            for group in sorted(sizes):
                if any(group in stage for stage in found):
                    rows.append(
                        (number, run.spec.method, axis, group, sizes[group], *(one.get(group) for one in found))
                    )
    if not rows:
        return None
    unit = preset_unit(runs, preset)
    columns = (
        *METHOD,
        Column("axis", key=True),
        Column("facts dated", key=True),
        Column("cases", "count"),
        Column("before any edit", unit, with_counts=True),
        Column("after the edits", unit, with_counts=True),
    )
    note = (
        "By the fact's own date (start, else point in time) against the model's knowledge cutoff; 95 % intervals "
        "clustered by relation. Facts dated with the cutoff's year alone are apart, facts without a date left out."
    )
    return Table(f"By knowledge cutoff, preset {preset}", columns, tuple(rows), note)


def cutoff_groups(run: Run) -> dict[int, str]:
    """Dated case -> "by MONTH", "in YEAR, month not given" or "later than MONTH"; empty without a cutoff."""
    cutoff = run.knowledge_cutoff
    if cutoff is None:
        return {}
    # Runs of earlier versions recorded only the year.
    columns = run.cases.select(["case", "since", "year"]).to_pydict()
    dates = {
        case: since or year
        for case, since, year in zip(columns["case"], columns["since"], columns["year"], strict=True)
        if since or year
    }
    return {case: _group(date, cutoff) for case, date in dates.items()}


def year_estimates(run: Run, stage: EvaluationStage, preset: str) -> list[tuple[int, Estimate]]:
    """Mean of the update questions about facts of each year, in chronological order (WikiBigEdit, figure 11)."""
    years = dict(zip(run.cases["case"].to_pylist(), run.cases["year"].to_pylist(), strict=True))
    found = _estimates(run, stage, "update", preset, {case: year for case, year in years.items() if year})
    return sorted((int(year), estimate) for year, estimate in found.items())


def _group(date: str, cutoff: str) -> str:
    """Group of a date of any precision; the groups' names are in alphabetical order."""
    if not date.startswith("-") and date[:4] == cutoff[:4] and len(date) < len(cutoff):
        return f"in {cutoff[:4]}, month not given"
    return f"by {cutoff}" if date.startswith("-") or date[:7] <= cutoff else f"later than {cutoff}"


def _estimates(
    run: Run, stage: EvaluationStage, axis: Axis, preset: str, groups: dict[int, str]
) -> dict[str, Estimate]:
    rows = rows_of(run, stage, axis, preset)
    names = [groups.get(case, "") for case in rows["case"].to_pylist()]
    found = estimates_by(rows, names, preset_scale([run], preset))
    return {name: estimate for name, estimate in found.items() if name}
