"""Figures by popularity and age of the edited facts: year of the fact, views and counts of subject and object.

WikiBigEdit, figures 2 (b, h, i), 11, 13 and 14: answers of the unedited model, and their change by editing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgedit.analysis.breakdowns import breakdown_table, over_time_table
from kgedit.analysis.cells import Estimate, MeanChange
from kgedit.analysis.knowledge_cutoffs import cutoff_table, year_estimates
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import Table
from kgedit.pages.charts.heat import HeatCell, HeatRow, heat_map
from kgedit.pages.charts.lines import year_dots
from kgedit.pages.charts.scales import estimate_text
from kgedit.pages.marks import Drawing, Figure
from kgedit.pages.report_views import Exhibit, View, in_days, run_names
from kgedit.records.cases import SPECIFICITY
from kgedit.records.scores import EvaluationStage

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
