"""All figures of one view, each with the table of its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.analysis.answers import rows_of
from kgedit.analysis.breakdowns import breakdown_table
from kgedit.analysis.comparisons import paired_table, seeds_table
from kgedit.analysis.overviews import ability_table, overview_table, presets_table, runs_table, speed_table
from kgedit.analysis.tables import Estimate, MeanChange, Table, preset_names
from kgedit.analysis.two_hops import found_hops_table, retrieval_table, single_hops_table
from kgedit.analysis.wikifactdiff import neighbours_table
from kgedit.analysis.wrong_answers import error_table
from kgedit.pages.charts import common_top, estimate_text
from kgedit.pages.charts.bars import Cost, FoundBar, HeatCell, HeatRow, found_bars, heat_map, memory_bars, time_dots
from kgedit.pages.charts.lines import ForestRow, Slope, Tradeoff, forest, slopes, tradeoffs
from kgedit.pages.figures_over_time import curve_exhibits, matrix_exhibits, specificity_exhibits, year_exhibits
from kgedit.pages.marks import Drawing, Figure
from kgedit.pages.report_views import ASKED_AXES, AXIS_NAMES, Exhibit, MethodView, View, run_names
from kgedit.records.cases import TWO_HOP_AXES, Axis

_FEW = 5
"""Cases of a group below which the figure calls it an anecdote: one answer is a fifth or more of its score."""
_MOST_ROWS = 18  # a figure fits a screen; the table below it has all groups


def exhibits_of(view: View) -> list[Exhibit]:
    """All figures of a view for which there are numbers, in page order."""
    over_time, knowledge = (curve_exhibits, matrix_exhibits), (year_exhibits, specificity_exhibits)
    makers = (_comparison, _slopes, _tradeoff, *over_time, _breakdowns, _neighbours, *knowledge, _retrieval, _costs)
    return [exhibit for make in makers for exhibit in make(view)]


def forest_row(method: MethodView, axis: Axis) -> ForestRow:
    """A method on an axis, as in its row of the comparison; for locality, the share kept."""
    if axis == "locality":
        return ForestRow(method.name, None, method.kept, None, "before" if method.is_baseline else "good")
    free, forced = method.free.get(axis), method.forced.get(axis)
    own = free or forced
    before = own.before if own else None
    return ForestRow(
        method.name,
        before.mean if before and not method.is_baseline else None,
        free.after if free else None,
        forced.after if forced else None,
        "before" if method.is_baseline else "free",
    )


def _comparison(view: View) -> Iterator[Exhibit]:
    panels = [
        forest(
            "Locality kept" if axis == "locality" else AXIS_NAMES[axis], [forest_row(one, axis) for one in view.methods]
        )
        for axis in view.axes
        if axis != "locality" or any(method.kept for method in view.methods)
    ]
    if panels:
        note = "Dot: free decoding with its 95 % interval; ring: teacher forcing; tick: before any edit. In %."
        figure = Figure(f"comparison-{view.key}", "Comparison", tuple(panels), note)
        tables = [presets_table(view.runs), overview_table(view.runs, view.shown_preset)]
        if view.free and view.forced:
            tables.append(overview_table(view.runs, view.forced.name))
        tables += [made for make in (paired_table, seeds_table) if (made := make(view.runs, view.shown_preset))]
        yield Exhibit("comparison", figure, tuple(tables))


def _slopes(view: View) -> Iterator[Exhibit]:
    panels = []
    top = common_top(
        asked.after.mean
        for method in view.methods
        for axis in ASKED_AXES
        for asked in (method.forced.get(axis), method.free.get(axis))
        if asked and asked.after
    )
    for axis in ASKED_AXES:
        pairs = [
            Slope(method.name, forced.after, free.after, method.is_baseline)
            for method in view.methods
            if (forced := method.forced.get(axis)) and (free := method.free.get(axis)) and forced.after and free.after
        ]
        if pairs:
            panels.append(slopes(AXIS_NAMES[axis], pairs, top=top))
    if panels and view.free and view.forced:
        note = (
            f"Teacher forcing: preset {view.forced.name}, {view.forced.metric}. Free: preset {view.free.name}, "
            f"{view.free.metric}. After the edits, in %. Dashed: the unedited model."
        )
        figure = Figure(f"two-ways-{view.key}", "Two ways of asking", tuple(panels), note)
        errors = error_table(view.runs, view.free.name)
        yield Exhibit("asking", figure, (overview_table(view.runs, view.free.name), *([errors] if errors else [])))


def _tradeoff(view: View) -> Iterator[Exhibit]:
    points = []
    for method in view.methods:
        asked = method.shown.get("update")
        if asked and asked.after and method.kept:
            points.append(
                Tradeoff(method.name, _gain(asked.before, asked.after), _lost(method.kept), method.is_baseline)
            )
    if any(not point.is_baseline for point in points):
        title = f"After the edits, preset {view.shown_preset}"
        note = (
            "Gain: updates right after the edits less those right before. Damage: unrelated answers that changed, "
            "better or worse. Crosses: 95 % intervals; those of gain take the score before as known."
        )
        figure = Figure(
            f"gain-and-damage-{view.key}",
            "Gain and damage",
            (tradeoffs(title, points),),
            note,
            (tradeoffs(title, points, width=440),),
        )
        yield Exhibit("tradeoff", figure, (presets_table(view.runs),))


def _gain(before: Estimate | None, after: Estimate) -> Estimate:
    start = before.mean if before else 0.0
    low, high = (None if end is None else end - start for end in (after.low, after.high))
    return Estimate(after.mean - start, low, high, after.n)


def _lost(kept: Estimate) -> Estimate:
    low, high = (None if end is None else 1.0 - end for end in (kept.high, kept.low))
    return Estimate(1.0 - kept.mean, low, high, kept.n)


def _breakdowns(view: View) -> Iterator[Exhibit]:
    for preset, role in ((view.free, "free"), (view.forced, "forced")):
        if preset is None:
            continue
        for by in ("relation", "kind", "tag", "scenario", "year"):
            table = breakdown_table(view.runs, by, preset=preset.name)
            found = _breakdown(view, table, by, role) if table else None
            if table and found:
                choice = f"by {by}, {'free' if role == 'free' else 'teacher forcing'}"
                note = f"Update questions right after the edits, preset {preset.name}, in %. n: cases."
                figure = Figure(f"by-{by}-{view.key}-{preset.name}", f"Updates {choice}", (found,), note)
                yield Exhibit("breakdowns", figure, (table,), choice)


def _breakdown(view: View, table: Table, by: str, role: str) -> Drawing | None:
    names = run_names(view.runs)
    titles = [column.name for column in table.columns]
    if "update" not in titles:
        return None
    at = titles.index("update")
    cells: dict[str, dict[int, HeatCell]] = {}
    sizes: dict[str, int] = {}
    for row in table.rows:
        number, group, count, cell = row[0], str(row[2]), row[3], row[at]
        if isinstance(number, int) and isinstance(cell, MeanChange) and cell.after:
            found = HeatCell(
                cell.after.mean, cell.after.n, tooltip=f"{names[number - 1]}, {group}: {estimate_text(cell.after)}"
            )
            cells.setdefault(group, {})[number] = found
            sizes[group] = max(sizes.get(group, 0), count if isinstance(count, int) else 0)
    if len(cells) < 2:
        return None
    chosen = sorted(cells, key=lambda group: (-sizes[group], group))[:_MOST_ROWS]
    order = chosen if by == "relation" else [group for group in cells if group in set(chosen)]
    blank = HeatCell(None)
    rows = [
        HeatRow(group, f"{sizes[group]:,}", tuple(cells[group].get(i + 1, blank) for i in range(len(names))))
        for group in order
    ]
    left = len(cells) - len(rows)
    few = any(sizes[group] < _FEW for group in order)
    parts = [f"{left:,} more in the numbers" if left else "", "fewer than five cases: an anecdote" if few else ""]
    note = "; ".join(part for part in parts if part)
    return heat_map(f"Update by {by}", names, rows, role=role, note=note, names=230)


def _neighbours(view: View) -> Iterator[Exhibit]:
    """Figure 2 of WikiFactDiff."""
    for preset in preset_names(view.runs):
        table = neighbours_table(view.runs, preset)
        if table is None:
            continue
        cells = [[cell if isinstance(cell, Estimate) else None for cell in row[1:]] for row in table.rows]
        most = max(cell.mean for row in cells for cell in row if cell)
        rows = [
            HeatRow(str(row[0]), "", tuple(_ratio(cell, most) for cell in found))
            for row, found in zip(table.rows, cells, strict=True)
        ]
        titles = [column.name for column in table.columns[1:]]
        drawn = heat_map(
            "Bleedover by similarity (rows) and popularity (columns)", titles, rows, role="forced", names=110
        )
        note = f"Nearest neighbours; 1 is the average of each method. Mean over methods, preset {preset}."
        choice = "bleedover by neighbour" + ("" if preset == preset_names(view.runs)[0] else f", {preset}")
        figure = Figure(f"bleedover-by-neighbour-{view.key}-{preset}", "Bleedover by neighbour", (drawn,), note)
        yield Exhibit("breakdowns", figure, (table,), choice)


def _ratio(cell: Estimate | None, most: float) -> HeatCell:
    if cell is None:
        return HeatCell(None)
    return HeatCell(cell.mean / most if most else 0.0, cell.n, tooltip=f"n = {cell.n:,}", label=f"{cell.mean:.2f}")


def _retrieval(view: View) -> Iterator[Exhibit]:
    preset = view.shown_preset
    for name, key, run in zip(run_names(view.runs), view.run_keys, view.runs, strict=True):
        if not any(item.preset == preset for item in run.scores.retrieval):
            continue
        panels = []
        for axis in ASKED_AXES:
            rows = rows_of(run, "own", axis, preset)
            bars = _found(rows, axis) if len(rows) else []
            if bars:
                panels.append(found_bars(f"{name}: {AXIS_NAMES[axis]}, {sum(bar.n for bar in bars):,} questions", bars))
        if panels:
            tables = [make(view.runs, preset) for make in (retrieval_table, found_hops_table, single_hops_table)]
            note = f"Bar: questions by what the prompt held; filled: answered right. Preset {preset}."
            figure = Figure(f"retrieval-{view.key}-{key}", "Found, and used", tuple(panels), note)
            yield Exhibit("retrieval", figure, tuple(table for table in tables if table))


def _found(rows: pa.Table, axis: Axis) -> list[FoundBar]:
    rows = rows.filter(pc.field("right").is_valid())
    first, second, right = (
        rows[name].to_numpy(zero_copy_only=False).astype(bool) for name in ("first_found", "second_found", "right")
    )
    if axis in TWO_HOP_AXES:
        needed = rows["second_case"].is_valid().to_numpy(zero_copy_only=False)
        parts = [
            ("both facts", first & second & needed),
            ("first only", first & ~second & needed),
            ("second only", ~first & second & needed),
            ("neither", ~first & ~second & needed),
        ]
    else:
        parts = [("found", first), ("not found", ~first)]
    return [FoundBar(name, int(part.sum()), int((part & right).sum())) for name, part in parts if part.any()]


def _costs(view: View) -> Iterator[Exhibit]:
    costs = [
        Cost(name, run.cpu_seconds_per_edit, run.scores.edits.peak_memory_bytes / 2**30)
        for name, run in zip(run_names(view.runs), view.runs, strict=True)
    ]
    costs.sort(key=lambda cost: (cost.seconds or 0.0, cost.name))
    tables = [runs_table(view.runs), speed_table(view.runs), ability_table(view.runs)]
    note = "Processor time of the method's calls for each edit; the most memory that was held while editing."
    figure = Figure(f"cost-{view.key}", "Cost", (time_dots(costs), memory_bars(costs)), note)
    yield Exhibit("cost", figure, tuple(table for table in tables if table))
