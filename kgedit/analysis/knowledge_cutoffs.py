"""Scores of facts dated before and after a model's knowledge cutoff (WikiBigEdit, section 3.3, figure 2 b)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from kgedit.analysis.answers import estimates_by, rows_of
from kgedit.analysis.cells import Cell, Estimate
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import COMPARED_STAGES, METHOD, Column, Table, asked_axes, preset_scale, preset_unit
from kgedit.errors import TimestepError
from kgedit.records.cases import Axis
from kgedit.records.scores import EvaluationStage

_FILE = Path(__file__).parents[1] / "data" / "knowledge_cutoffs.yaml"
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
    rows = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
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
