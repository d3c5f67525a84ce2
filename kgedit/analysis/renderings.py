"""Renders a report's tables as Markdown, JSON and CSV, and all scores of its runs as one CSV table."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence

from kgedit.analysis.cells import NOTHING, as_text, as_values, flattened, mean
from kgedit.analysis.runs import Run
from kgedit.analysis.tables import COMPARED_STAGES, Table, own_score, preset_names
from kgedit.records.cases import AXES
from kgedit.records.scores import Score

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
                    side = [_number(mean(scores.get(metric))) for metric in metrics]
                    cells = (*who, preset, axis, *measured, *side, *cost)
                    writer.writerow("" if cell == NOTHING else cell for cell in cells)
    return lines.getvalue()


def _measured(before: Score | None, after: Score | None) -> tuple[str, ...]:
    named = after or before
    ends = (after.low, after.high) if after else (None, None)
    return (
        named.metric if named else NOTHING,
        _number(mean(before)),
        _number(mean(after)),
        *map(_number, ends),
        str(after.n) if after else NOTHING,
    )


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.6g}"
