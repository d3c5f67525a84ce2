"""A report's table: titled columns of values, rendered by renderings.py and by the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kgedit.analysis.cells import Cell, Unit, as_text, count_of
from kgedit.analysis.runs import Run
from kgedit.records.cases import AXES, Axis
from kgedit.records.runs import Preset
from kgedit.records.scores import SHARE, EvaluationStage, MetricScale, Score

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
    """Identity of a table's runs: number and method, and what else they differ in."""

    columns: tuple[Column, ...]
    cells: tuple[tuple[Cell, ...], ...]


def who(runs: Sequence[Run]) -> Who:
    """Columns that identify runs, with one tuple of cells per run."""
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
