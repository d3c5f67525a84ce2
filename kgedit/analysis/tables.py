"""A report's table: titled columns of cells, rendered as Markdown, JSON and CSV here, and by the terminal.

Cells are kept as values until they are rendered: numbers, estimates with intervals, and changes. The terminal and
Markdown show them as text, JSON and CSV as numbers. "–" marks a missing measurement.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import SHARE, EvaluationStage, MetricScale, Score

if TYPE_CHECKING:
    from kgedit.analysis.runs import Run

NOTHING = "–"

Unit = Literal["text", "count", "percent", "points", "plain", "change", "seconds", "rate", "gibibytes", "p"]
"""Format of a column's numbers.

percent: a share, as % with one decimal. points: a difference of shares, in percentage points with its sign. plain: four
significant digits. change: a difference of plain values, with its sign. p: a p-value.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval.

    Attributes:
        mean: The mean.
        low: Lower end of the interval; None means no interval.
        high: Upper end.
        n: Number of answers; None if unknown.
        deviation: Standard deviation over timesteps, weighted by their answers; None if not reported.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    deviation: float | None = None


@dataclass(frozen=True, slots=True)
class MeanChange:
    """A score before any edit and after the edits.

    Attributes:
        before: Mean before any edit; None if not measured.
        after: Mean after the edits; None if not measured.
    """

    before: float | None
    after: Estimate | None


Cell = str | int | float | None | Estimate | MeanChange


def estimate(score: Score | None) -> Estimate | None:
    """Mean of a score with its interval."""
    return None if score is None else Estimate(score.mean, score.low, score.high, score.n)


def mean(score: Score | None) -> float | None:
    """Mean of a score without interval."""
    return None if score is None else score.mean


def change(before: Score | None, after: Score | None) -> MeanChange | None:
    """Change from one score to another; None if neither was measured."""
    return MeanChange(mean(before), estimate(after)) if before or after else None


def count_of(cell: Cell) -> int | None:
    """Number of answers behind an estimate or a change."""
    found = cell.after if isinstance(cell, MeanChange) else cell
    return found.n if isinstance(found, Estimate) else None


def as_text(cell: Cell, unit: Unit, *, with_count: bool = False) -> str:
    """Render a cell as text.

    Args:
        with_count: Whether to append the number of answers.
    """
    match cell:
        case None:
            return NOTHING
        case str():
            return cell
        case MeanChange(before, after):
            return f"{as_text(before, unit)}→{as_text(after, unit, with_count=with_count)}"
        case Estimate(value, low, high, n, deviation):
            spread = "" if deviation is None else f" ±{_number(deviation, unit)}"
            interval = "" if low is None or high is None else f" [{_number(low, unit)}, {_number(high, unit)}]"
            count = f" n={n:,}" if with_count and n is not None else ""
            return f"{_number(value, unit)}{spread}{interval}{count}"
        case _:
            return _number(cell, unit)


def as_values(cell: Cell) -> Any:
    """Convert a cell for JSON: numbers, text, null, or a mapping of these."""
    match cell:
        case MeanChange(before, after):
            return {"before": _rounded(before), "after": as_values(after)}
        case Estimate(value, low, high, n, deviation):
            found = {"mean": _rounded(value), "low": _rounded(low), "high": _rounded(high), "n": n}
            return found if deviation is None else found | {"deviation": _rounded(deviation)}
        case float():
            return _rounded(cell)
        case _:
            return cell


def flattened(cell: Cell) -> dict[str, Any]:
    """Convert a cell for CSV: its values, keyed by the suffix of the column name."""
    match cell:
        case MeanChange(before, after):
            return {" before": _rounded(before), **flattened(after)}
        case Estimate(value, low, high, n, deviation):
            found = {"": _rounded(value), " low": _rounded(low), " high": _rounded(high), " n": n}
            return found if deviation is None else found | {" deviation": _rounded(deviation)}
        case float():
            return {"": _rounded(cell)}
        case _:
            return {"": cell}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _number(value: float, unit: Unit) -> str:
    return _WRITERS[unit](value)


def _seconds(value: float) -> str:
    """Three significant digits; values under half a millisecond are shown as zero."""
    if value < 5e-4:
        return "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


_WRITERS: dict[Unit, Callable[[float], str]] = {
    "text": "{:,}".format,
    "count": "{:,}".format,
    "percent": lambda value: f"{100 * value:.1f}",
    "points": lambda value: f"{100 * value:+.1f}",
    "plain": lambda value: f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}",
    "change": "{:+.4g}".format,
    "seconds": _seconds,
    "rate": "{:,.1f}".format,
    "gibibytes": "{:,.1f}".format,
    "p": lambda value: "<0.001" if value < 0.001 else f"{value:.3f}",
}


COMPARED_STAGES: tuple[EvaluationStage, EvaluationStage] = ("before", "own")
"""The two sides of every comparison: before any edit, and directly after a timestep's own edits."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: Name of the content, used in JSON and CSV.
        unit: Format of its numbers; "text" for text.
        key: Whether it identifies rows: if a table is too wide for the terminal, each part repeats these columns.
        heading: Heading; "" means the name.
        with_counts: Whether each cell shows its number of answers.
    """

    name: str
    unit: Unit = "text"
    key: bool = False
    heading: str = ""
    with_counts: bool = False

    @property
    def number(self) -> bool:
        """Whether its cells are numbers, which are aligned right."""
        return self.unit != "text"

    @property
    def title(self) -> str:
        """Heading of the column."""
        return self.heading or self.name


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table.

    Attributes:
        title: Title.
        columns: Columns with headings and units.
        rows: One tuple of cells per row, one cell per column.
        note: Note for the reader, or "".
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def texts(self) -> list[tuple[str, ...]]:
        """Rows rendered as text."""
        return [
            tuple(
                as_text(cell, column.unit, with_count=column.with_counts)
                for column, cell in zip(self.columns, row, strict=True)
            )
            for row in self.rows
        ]


def with_counts(table: Table) -> Table:
    """Add numbers of answers: in the heading if all rows agree, else in the cells."""
    columns = []
    for index, column in enumerate(table.columns):
        counts = {count for row in table.rows if (count := count_of(row[index])) is not None}
        if len(counts) == 1:
            columns.append(replace(column, heading=f"{column.title} n={counts.pop():,}"))
        else:
            columns.append(replace(column, with_counts=bool(counts)))
    return replace(table, columns=tuple(columns))


METHOD = (Column("#", "count", key=True), Column("method", key=True))


@dataclass(frozen=True, slots=True)
class Who:
    """Identity of a table's runs: number and method, and what else they differ in; the folder if nothing else does."""

    columns: tuple[Column, ...]
    cells: tuple[tuple[Cell, ...], ...]


def who(runs: Sequence[Run]) -> Who:
    """Columns that identify runs, with one tuple of cells per run."""
    settings: dict[str, list[str]] = {
        "protocol": [run.spec.protocol for run in runs],
        "model": [run.model for run in runs],
        "edits": [f"{run.scores.edits.edits:,}" for run in runs],
        "seed": [str(run.spec.seed) for run in runs],
    }
    differing = {name: values for name, values in settings.items() if len(set(values)) > 1}
    if len(set(zip((run.spec.method for run in runs), *differing.values(), strict=True))) < len(runs):
        differing["run"] = [run.folder.name for run in runs]
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (index + 1, run.spec.method, *(values[index] for values in differing.values()))
        for index, run in enumerate(runs)
    )
    return Who((*METHOD, *(Column(name) for name in differing)), rows)


def preset_names(runs: Sequence[Run]) -> list[str]:
    """Presets of all runs, in the order of the specs."""
    return list(dict.fromkeys(preset.name for run in runs for preset in run.spec.presets))


def presets_of(runs: Sequence[Run]) -> list[Preset]:
    """The presets themselves; runs of one group agree on the meaning of a name."""
    return list({preset.name: preset for run in reversed(runs) for preset in reversed(run.spec.presets)}.values())[::-1]


def main_score(scores: dict[str, Score]) -> Score | None:
    """Score by the preset's own metric."""
    return next((score for score in scores.values() if score.main), None)


def own_score(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> Score | None:
    """Pooled score by the preset's own metric."""
    return main_score(run.pooled(stage, axis, preset))


def asked_axes(runs: Sequence[Run], preset: str) -> list[Axis]:
    """Axes that any of the runs evaluated under a preset."""
    return [axis for axis in AXES if any(run.pooled(stage, axis, preset) for run in runs for stage in COMPARED_STAGES)]


def metrics_of(runs: Sequence[Run], preset: str) -> str:
    """Metrics of a preset, with "in %" if they are shares."""
    names = " or ".join(sorted(_metrics(runs, preset)))
    return f"{names} in %" if preset_scale(runs, preset).is_share else names


def metric_unit(runs: Sequence[Run], metric: str) -> Unit:
    """Unit of a metric, by its declared range: percent for shares and their differences."""
    return "percent" if all(run.scale_of(metric).is_share for run in runs) else "plain"


def preset_scale(runs: Sequence[Run], preset: str) -> MetricScale:
    """Range and direction of the preset's own metric, on which runs of one group agree."""
    scales = [run.scale_of(metric) for run in runs for metric in sorted(_metrics([run], preset))]
    return next((scale for scale in scales if not scale.is_share), scales[0] if scales else SHARE)


def preset_unit(runs: Sequence[Run], preset: str) -> Unit:
    """Unit of scores by the preset's own metric."""
    return "percent" if preset_scale(runs, preset).is_share else "plain"


def preset_change_unit(runs: Sequence[Run], preset: str) -> Unit:
    """Unit of differences between scores by the preset's own metric."""
    return "points" if preset_scale(runs, preset).is_share else "change"


def _metrics(runs: Sequence[Run], preset: str) -> set[str]:
    return {item.metric for run in runs for item in run.spec.presets if item.name == preset}


def dates(timestep: str) -> str:
    """Name of a timestep with a space, so that its two dates can wrap."""
    return timestep.replace("_", " ")


_RUN = ("folder", "method", "protocol", "model", "edits", "seed", "trained_in", "cases")
_AXIS = ("preset", "axis", "metric", "before", "after", "low", "high", "n")
_COST = ("seconds_per_edit", "cpu_seconds_per_edit", "questions_per_second")

_SUFFIXES = (" before", "", " low", " high", " n", " deviation")


def to_markdown(tables: Sequence[Table], *, title: str = "Report") -> str:
    """Render the report as one Markdown document."""
    parts = [f"# {title}\n"]
    for table in tables:
        parts.append(f"## {_capital(table.title)}\n")
        if table.note:
            parts.append(f"{table.note}\n")
        parts.append(_markdown_table(table))
    return "\n".join(parts)


def _markdown_table(table: Table) -> str:
    heads = [_cell(column.title) for column in table.columns]
    rules = ["--:" if column.number else ":--" for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.texts()]
    return "".join(f"| {' | '.join(line)} |\n" for line in [heads, rules, *rows])


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def to_json(tables: Sequence[Table]) -> str:
    """Render the report as one JSON document: titles, notes, and rows as objects; shares as fractions of 1."""
    document = [
        {
            "title": table.title,
            "note": table.note,
            "columns": [{"name": column.name, "unit": column.unit} for column in table.columns],
            "rows": [
                {column.name: as_values(cell) for column, cell in zip(table.columns, row, strict=True)}
                for row in table.rows
            ],
        }
        for table in tables
    ]
    return json.dumps({"tables": document}, ensure_ascii=False, indent=1) + "\n"


def table_to_csv(table: Table) -> str:
    """Render one table as CSV, shares as fractions of 1; estimates have separate columns for interval and n."""
    flat = [[flattened(cell) for cell in row] for row in table.rows]
    wanted = [
        (index, suffix)
        for index in range(len(table.columns))
        for suffix in _SUFFIXES
        if suffix == "" or any(suffix in row[index] for row in flat)
    ]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([table.columns[index].name + suffix for index, suffix in wanted])
    for row in flat:
        writer.writerow(["" if (value := row[index].get(suffix)) is None else value for index, suffix in wanted])
    return lines.getvalue()


def file_names(tables: Sequence[Table]) -> list[str]:
    """File name of each table, in order: its number and its title in portable characters."""
    return [
        f"{number:02d}-{re.sub(r'[^a-z0-9]+', '-', table.title.lower()).strip('-')[:80]}.csv"
        for number, table in enumerate(tables, start=1)
    ]


def to_csv(runs: Sequence[Run]) -> str:
    """Render all axes and presets as one table: one row per run, preset and evaluated axis; empty means not measured.

    Shares are fractions of 1, as in all machine-readable output.
    """
    metrics = sorted({score.metric for run in runs for score in run.scores.scores})
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([*_RUN, *_AXIS, *metrics, *_COST])
    for run in runs:
        who = (
            str(run.folder),
            run.spec.method,
            run.spec.protocol,
            run.model,
            str(run.scores.edits.edits),
            str(run.spec.seed),
            run.spec.train_context or NOTHING,
            run.scores.cases_sha256[:8],
        )
        for preset in preset_names([run]):
            per_edit = (as_text(cost, "seconds") for cost in (run.seconds_per_edit, run.cpu_seconds_per_edit))
            cost = (*per_edit, as_text(run.questions_per_second(preset), "rate"))
            for axis in AXES:
                scores = run.pooled("own", axis, preset)
                before, after = (own_score(run, stage, axis, preset) for stage in COMPARED_STAGES)
                if before or after:
                    measured = _measured(before, after)
                    side = [_six_digits(mean(scores.get(metric))) for metric in metrics]
                    cells = (*who, preset, axis, *measured, *side, *cost)
                    writer.writerow("" if cell == NOTHING else cell for cell in cells)
    return lines.getvalue()


def _measured(before: Score | None, after: Score | None) -> tuple[str, ...]:
    named = after or before
    ends = (after.low, after.high) if after else (None, None)
    return (
        named.metric if named else NOTHING,
        _six_digits(mean(before)),
        _six_digits(mean(after)),
        *map(_six_digits, ends),
        str(after.n) if after else NOTHING,
    )


def _six_digits(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.6g}"
