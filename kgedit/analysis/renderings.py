"""Tables of a report as Markdown, and its numbers as one CSV table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from kgedit.analysis.runs import Run
from kgedit.analysis.tables import (
    COMPARED_STAGES,
    NOTHING,
    Table,
    own_score,
    percent,
    preset_names,
    rate,
    seconds,
    share,
)
from kgedit.records.cases import AXES
from kgedit.records.scores import Score

_RUN = ("folder", "method", "protocol", "model", "edits", "seed", "trained_in", "cases")
_AXIS = ("preset", "axis", "metric", "before", "after", "low", "high", "n")
_COST = ("seconds_per_edit", "cpu_seconds_per_edit", "questions_per_second")


def to_markdown(tables: Sequence[Table]) -> str:
    """The report as one Markdown document."""
    parts = ["# Report\n"]
    for table in tables:
        parts.append(f"## {_capital(table.title)}\n")
        if table.note:
            parts.append(f"{table.note}\n")
        parts.append(_markdown_table(table))
    return "\n".join(parts)


def _markdown_table(table: Table) -> str:
    heads = [_cell(column.name) for column in table.columns]
    rules = ["--:" if column.number else ":--" for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in [heads, rules, *rows])


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def to_csv(runs: Sequence[Run]) -> str:
    """All axes and presets as one table: a row for each run, preset and axis asked; empty where not measured."""
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
            per_edit = (seconds(run.seconds_per_edit), seconds(run.cpu_seconds_per_edit))
            cost = (*per_edit, rate(run.questions_per_second(preset)))
            for axis in AXES:
                scores = run.pooled("own", axis, preset)
                before, after = (own_score(run, stage, axis, preset) for stage in COMPARED_STAGES)
                if before or after:
                    measured = _measured(before, after)
                    side = [percent(scores.get(metric)) for metric in metrics]
                    cells = (*who, preset, axis, *measured, *side, *cost)
                    writer.writerow("" if cell == NOTHING else cell for cell in cells)
    return lines.getvalue()


def _measured(before: Score | None, after: Score | None) -> tuple[str, ...]:
    named = after or before
    ends = (after.low, after.high) if after else (None, None)
    return (
        named.metric if named else NOTHING,
        percent(before),
        percent(after),
        *(share(end) for end in ends),
        str(after.n) if after else NOTHING,
    )
