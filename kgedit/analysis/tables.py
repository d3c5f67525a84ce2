"""A report's table: titled columns of values, drawn by renderings.py and by the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kgedit.analysis.cells import Cell, Unit, as_text, count_of
from kgedit.analysis.runs import Run
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import SHARE, EvaluationStage, MetricScale, Score

COMPARED_STAGES: tuple[EvaluationStage, EvaluationStage] = ("before", "own")
"""The two sides of every comparison: before any edit, and right after a timestep's own edits."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: What it holds; the name in JSON and CSV.
        unit: How its numbers are written; "text" for words.
        key: Whether it tells rows apart: a table too wide for the terminal is split, and each part has these columns.
        heading: As written above it; "" for the name.
        with_counts: Whether each cell tells its number of answers.
    """

    name: str
    unit: Unit = "text"
    key: bool = False
    heading: str = ""
    with_counts: bool = False

    @property
    def number(self) -> bool:
        """Whether its cells are numbers, set to the right."""
        return self.unit != "text"

    @property
    def title(self) -> str:
        """What stands above it."""
        return self.heading or self.name


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table.

    Attributes:
        title: What it shows.
        columns: Headings and units.
        rows: Cells, one tuple a row, as many as there are columns.
        note: What to read it by, or "".
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def texts(self) -> list[tuple[str, ...]]:
        """The rows in words."""
        return [
            tuple(
                as_text(cell, column.unit, with_count=column.with_counts)
                for column, cell in zip(self.columns, row, strict=True)
            )
            for row in self.rows
        ]


def with_counts(table: Table) -> Table:
    """The same table telling how many answers estimates rest on: in the heading where all rows agree, else in cells."""
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
    """What tells the runs of a table apart: number and method, and what else they differ in."""

    columns: tuple[Column, ...]
    cells: tuple[tuple[Cell, ...], ...]


def who(runs: Sequence[Run]) -> Who:
    """Columns that tell runs apart, and their cells, a tuple for each run."""
    told: dict[str, list[str]] = {
        "protocol": [run.spec.protocol for run in runs],
        "model": [run.model for run in runs],
        "edits": [f"{run.scores.edits.edits:,}" for run in runs],
        "seed": [str(run.spec.seed) for run in runs],
    }
    differing = {name: values for name, values in told.items() if len(set(values)) > 1}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (index + 1, run.spec.method, *(values[index] for values in differing.values()))
        for index, run in enumerate(runs)
    )
    return Who((*METHOD, *(Column(name) for name in differing)), rows)


def preset_names(runs: Sequence[Run]) -> list[str]:
    """Every preset under which any run asked, in the order of the specs."""
    return list(dict.fromkeys(preset.name for run in runs for preset in run.spec.presets))


def presets_of(runs: Sequence[Run]) -> list[Preset]:
    """These presets themselves; runs of one group agree on what a name means."""
    return list({preset.name: preset for run in reversed(runs) for preset in reversed(run.spec.presets)}.values())[::-1]


def main_score(scores: dict[str, Score]) -> Score | None:
    """The one by the preset's own metric."""
    return next((score for score in scores.values() if score.main), None)


def own_score(run: Run, stage: EvaluationStage, axis: Axis, preset: str) -> Score | None:
    """The pooled score by the preset's own metric."""
    return main_score(run.pooled(stage, axis, preset))


def asked_axes(runs: Sequence[Run], preset: str) -> list[Axis]:
    """Axes that any of the runs asked under a preset."""
    return [axis for axis in AXES if any(run.pooled(stage, axis, preset) for run in runs for stage in COMPARED_STAGES)]


def metrics_of(runs: Sequence[Run], preset: str) -> str:
    """The metrics of a preset, with "in %" where they are shares."""
    names = " or ".join(sorted(_metrics(runs, preset)))
    return f"{names} in %" if preset_scale(runs, preset).is_share else names


def metric_unit(runs: Sequence[Run], metric: str) -> Unit:
    """Percent for shares and their differences, by the range that the metric declares."""
    return "percent" if all(run.scale_of(metric).is_share for run in runs) else "plain"


def preset_scale(runs: Sequence[Run], preset: str) -> MetricScale:
    """Range and direction of the preset's own metric; runs of one group agree on it."""
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
    """A timestep's name with a space, so that the two dates can stand below each other."""
    return timestep.replace("_", " ")
