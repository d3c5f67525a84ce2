"""Figures over time: scores as edits accumulate, forgetting, and scores by year and popularity of the edited facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import estimate_of
from kgedit.analysis.breakdowns import breakdown_table, cutoff_table, over_time_table, year_estimates
from kgedit.analysis.overviews import schedule_table
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Estimate, MeanChange, Table
from kgedit.analysis.timesteps import lifelong_table, retention_table
from kgedit.pages.charts import common_top, estimate_text
from kgedit.pages.charts.bars import HeatCell, HeatRow, heat_map
from kgedit.pages.charts.lines import Curve, curves, year_dots
from kgedit.pages.marks import Drawing, Figure
from kgedit.pages.report_views import ASKED_AXES, AXIS_NAMES, Exhibit, View, in_days, run_names
from kgedit.records.cases import SPECIFICITY, Axis
from kgedit.records.scores import EvaluationStage, Retention

_IN_FORCE = ("own", "partial", "retained")
"""Stages at which the edit in question had been made."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """Curves of one measure."""

    title: str
    lines: tuple[Curve, ...]
    role: str


def curve_exhibits(view: View) -> Iterator[Exhibit]:
    """Scores after each evaluated number of edits; none if all runs were evaluated only once."""
    presets = [(preset, role) for preset, role in ((view.free, "free"), (view.forced, "forced")) if preset]
    panels = []
    for preset, role in presets:
        way = "free" if role == "free" else "teacher forcing"
        for axis in ("update", "rephrase"):
            panels.append(_Panel(f"{AXIS_NAMES[axis]}, {way}", _lines(view, axis, preset.name), role))
    if presets:
        panels.append(_Panel("Unrelated answers kept", _lines(view, "locality", view.shown_preset), "good"))
    panels = [panel for panel in panels if panel.lines]
    if panels:
        drawn = tuple(_drawn(panel, panels) for panel in panels)
        tables = [table for preset, _ in presets if (table := schedule_table(view.runs, preset.name))]
        note = (
            "Scores after each number of edits, over all edits so far that were evaluated, in %; bars: 95 % "
            "intervals. Unrelated answers are those of the current timestep."
        )
        yield Exhibit("curves", Figure(f"as-edits-add-up-{view.key}", "As edits add up", drawn, note), tuple(tables))


def _drawn(panel: _Panel, panels: Sequence[_Panel]) -> Drawing:
    alike = [other for other in panels if other.role == panel.role]
    top = common_top(found.mean for other in alike for line in other.lines for _, found in line.points)
    return curves(panel.title, panel.lines, role=panel.role, top=top)


def _lines(view: View, axis: Axis, preset: str) -> tuple[Curve, ...]:
    lines = []
    for name, run in zip(run_names(view.runs), view.runs, strict=True):
        # "single" undoes every edit, so nothing accumulates.
        points = {} if run.spec.protocol == "single" else _points_of(run, axis, preset)
        if len(points) > 1:
            lines.append(Curve(name, tuple(sorted(points.items()))))
    return tuple(lines)


def _points_of(run: Run, axis: Axis, preset: str) -> dict[int, Estimate]:
    if axis == "locality":
        return _kept(run, preset)
    rows = run.answers.filter(
        pc.field("stage").isin(_IN_FORCE) & (pc.field("axis") == axis) & (pc.field("preset") == preset)
    )
    rows = rows.filter(pc.field("value").is_valid())
    states = list(dict.fromkeys(zip(rows["model_timestep"].to_pylist(), rows["edits"].to_pylist(), strict=True)))
    found = {}
    for timestep, edits in states:
        asked = pc.field("edits").is_null() if edits is None else pc.field("edits") == edits
        estimate = _estimate(rows.filter((pc.field("model_timestep") == timestep) & asked))
        if estimate:
            found[edits_in_force(run, timestep, edits)] = estimate
    return found


def _estimate(rows: pa.Table) -> Estimate | None:
    return estimate_of(rows["value"].to_numpy(), np.array(rows["relation"].to_pylist(), dtype=np.str_))


def _kept(run: Run, preset: str) -> dict[int, Estimate]:
    return {
        edits_in_force(run, state.timestep, state.edits): Estimate(score.mean, score.low, score.high, score.n)
        for score in run.scores.scores
        if score.metric == "unchanged" and score.preset == preset and score.stage in ("own", "partial")
        if (state := score.model_state) and state.timestep and score.timestep == state.timestep
    }


def edits_in_force(run: Run, timestep: str, edits: int | None = None) -> int:
    """Number of edits applied to the model: all of earlier timesteps, and `edits` of this one, or all."""
    sizes: dict[str, int] = {row["values"]: row["counts"] for row in pc.value_counts(run.cases["timestep"]).to_pylist()}
    order = run.scores.timesteps
    earlier = sum(sizes.get(step, 0) for step in order[: order.index(timestep)])
    return earlier + (sizes.get(timestep, 0) if edits is None else edits)


def matrix_exhibits(view: View) -> Iterator[Exhibit]:
    """Accuracy matrices of all axes, free and forced; none unless several timesteps were evaluated again later."""
    for preset, role in ((view.free, "free"), (view.forced, "forced")):
        if preset is None:
            continue
        for axis in ASKED_AXES:
            panels = []
            for name, run in zip(run_names(view.runs), view.runs, strict=True):
                for item in run.scores.retention:
                    if (item.axis, item.preset) == (axis, preset.name) and _was_asked_again(item):
                        panels.append(_matrix(name, item, role))
            if panels:
                way = "free" if role == "free" else "teacher forcing"
                choice = f"{AXIS_NAMES[axis]}, {way}"
                steps = list(dict.fromkeys(step for run in view.runs for step in run.scores.timesteps))
                named = "; ".join(f"{number} is {in_days(step)}" for number, step in enumerate(steps, start=1))
                figure = Figure(
                    f"forgetting-{view.key}-{axis}-{preset.name}",
                    f"What later timesteps undo: {choice}",
                    tuple(panels),
                    f"Row: the model after a timestep; column: the timestep asked; framed: just learned. {named}.",
                )
                tables = [make(view.runs, preset.name) for make in (retention_table, lifelong_table)]
                yield Exhibit("forgetting", figure, tuple(table for table in tables if table), choice)


def _was_asked_again(item: Retention) -> bool:
    return any(cell is not None for index, row in enumerate(item.matrix) for cell in row[:index])


def _points(value: float) -> str:
    percent_text = f"{100 * value:+.1f}"
    return "0" if float(percent_text) == 0 else percent_text.replace("-", "−")


def _matrix(name: str, item: Retention, role: str) -> Drawing:
    rows = [
        HeatRow(
            f"after {i + 1}",
            "",
            tuple(HeatCell(value, outlined=i == j) for j, value in enumerate(row)),
        )
        for i, row in enumerate(item.matrix)
    ]
    columns = [f"on {index + 1}" for index in range(len(item.matrix))]
    note = " · ".join(
        f"{word} {_points(value)}"
        for word, value in (("forgetting", item.forgetting), ("backward transfer", item.backward_transfer))
        if value is not None
    )
    return heat_map(name, columns, rows, role=role, note=note, names=54, cell=48)


# WikiBigEdit, figures 2 (b, h, i), 11, 13 and 14: answers of the unedited model, and their change by editing.


_YEARS = 30
"""Number of years drawn, counted back from the latest; older facts are only in the table by year."""


_KEYS = 3
"""Columns before those of the timesteps in a table over timesteps: number, method, tenth."""


def year_exhibits(view: View) -> Iterator[Exhibit]:
    """Updates by the year of the fact, before any edit and after, with the model's knowledge cutoff."""
    preset = view.free or view.forced
    if preset is None:
        return
    panels = list(_year_panels(view, preset.name))
    if not panels:
        return
    makers = (cutoff_table(view.runs, preset.name), breakdown_table(view.runs, "year", preset=preset.name))
    note = (
        f"Update questions by the year of the fact's own date, preset {preset.name}, in %; dots grow with the number "
        f"of answers, bars are 95 % intervals. Facts older than {_YEARS} years before the latest are not drawn."
    )
    figure = Figure(f"years-{view.key}", "Updates by the year of the fact", tuple(panels), note)
    yield Exhibit("knowledge", figure, tuple(table for table in makers if table), "by year of the fact")


def _year_panels(view: View, preset: str) -> Iterator[Drawing]:
    runs = list(zip(run_names(view.runs), view.runs, strict=True))
    # The unedited model is identical in all runs of a view.
    drawn: list[tuple[str, Run, EvaluationStage]] = [("Before any edit", runs[0][1], "before")]
    drawn += [(f"After: {name}", run, "own") for name, run in runs]
    for title, run, stage in drawn:
        years = year_estimates(run, stage, preset)
        years = [(year, found) for year, found in years if year > years[-1][0] - _YEARS]
        if len(years) > 1:
            role = "before" if stage == "before" else "free"
            sides = _sides(run, preset, before=stage == "before")
            yield year_dots(title, years, role=role, cutoff=run.knowledge_cutoff, sides=sides)


def _sides(run: Run, preset: str, *, before: bool) -> tuple[Estimate | None, Estimate | None]:
    table = cutoff_table([run], preset)
    found: dict[str, Estimate] = {}
    for row in table.rows if table else ():
        cell = row[5 if before else 6]
        if row[2] == "update" and isinstance(cell, Estimate):
            found[str(row[3]).partition(" ")[0]] = cell
    return found.get("by"), found.get("later")


def specificity_exhibits(view: View) -> Iterator[Exhibit]:
    """Updates by tenths of views and counts: before any edit and after for each run, and over timesteps."""
    preset = view.free or view.forced
    if preset is None:
        return
    names = run_names(view.runs)
    for by in SPECIFICITY:
        table = breakdown_table(view.runs, by, preset=preset.name)
        rows = _tenth_rows(table, len(names)) if table else []
        if table is None or len(rows) < 2:
            continue
        panels = [heat_map("All timesteps", ["before", *names], rows, role="free", names=80)]
        over_time = over_time_table(view.runs, by, preset=preset.name)
        panels += _over_time(over_time, names) if over_time else []
        name = by.replace("_", " ")
        note = f"Update questions, preset {preset.name}, in %. {table.note.rpartition('independent. ')[2]}"
        if over_time:
            steps = enumerate((in_days(column.name) for column in over_time.columns[_KEYS:]), start=1)
            note += f" Columns: timesteps; {'; '.join(f'{number} is {days}' for number, days in steps)}."
        figure = Figure(f"by-{by.replace('_', '-')}-{view.key}", f"Updates by {name}", tuple(panels), note)
        yield Exhibit("knowledge", figure, (table, *([over_time] if over_time else [])), f"by {name}")


def _tenth_rows(table: Table, runs: int) -> list[HeatRow]:
    """One row per tenth: before any edit, then each run."""
    titles = [column.name for column in table.columns]
    if "update" not in titles:
        return []
    at = titles.index("update")
    found: dict[str, dict[int, HeatCell]] = {}
    sizes: dict[str, int] = {}
    for row in table.rows:
        number, tenth, count, cell = row[0], str(row[2]), row[3], row[at]
        if tenth.isdigit() and isinstance(number, int) and isinstance(cell, MeanChange):
            cells = found.setdefault(tenth, {})
            sizes[tenth] = count if isinstance(count, int) else 0
            if cell.before is not None:
                cells.setdefault(0, HeatCell(cell.before, cell.after.n if cell.after else None))
            if cell.after:
                cells[number] = HeatCell(cell.after.mean, cell.after.n, tooltip=estimate_text(cell.after))
    blank = HeatCell(None)
    return [
        HeatRow(f"tenth {tenth}", f"{sizes[tenth]:,}", tuple(cells.get(index, blank) for index in range(runs + 1)))
        for tenth, cells in found.items()
    ]


def _over_time(table: Table, names: Sequence[str]) -> Iterator[Drawing]:
    """Heat map of tenths by timestep, before any edit and after each run's own edits."""
    steps = [str(number) for number in range(1, len(table.columns) - _KEYS + 1)]
    for index, title in enumerate(("Before any edit", *(f"After: {name}" for name in names))):
        rows = []
        for row in table.rows:
            if row[0] != max(index, 1):
                continue
            cells = []
            for cell in row[_KEYS:]:
                change = cell if isinstance(cell, MeanChange) else MeanChange(None, None)
                after = change.after
                if index == 0:
                    cells.append(HeatCell(change.before, after.n if after else None))
                else:
                    cells.append(
                        HeatCell(
                            after.mean if after else None, after.n if after else None, tooltip=estimate_text(after)
                        )
                    )
            rows.append(HeatRow(f"tenth {row[2]}", "", tuple(cells)))
        if rows:
            yield heat_map(title, steps, rows, role="free" if index else "before", names=80)
