"""Prints the tables of docs/methods.md from the runs of docs/methods.sh: methods_tables.py OUT"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from results_tables import interval, row, share

from kgedit.analysis.runs import Run
from kgedit.records.scores import Score
from kgedit.runs.run_files import read_runs

Measure = tuple[str, str, str]
"""Axis, preset and metric."""

SETS = {"counterfact": "CounterFact", "qaedit": "QAEdit"}
HELD = {"single": ", one by one", "per_timestep": ", all at once", "sequential": ", in a row"}
MAIN = (
    ("update", "synthetic", "token_match"),
    ("update", "few_shot", "exact_match"),
    ("update", "wild_chat", "contains"),
    ("rephrase", "synthetic", "token_match"),
    ("rephrase", "few_shot", "exact_match"),
    ("locality", "synthetic", "unchanged"),
    ("locality", "few_shot", "unchanged"),
)


def tables(out: Path) -> str:
    """All tables whose runs are there."""
    parts = [_overview(title, _runs(out / name)) for name, title in SETS.items() if (out / name).is_dir()]
    if runs := _runs(out / "in-a-row"):
        parts.append(_in_a_row(runs))
    return "\n\n".join(parts)


def _runs(folder: Path) -> list[Run]:
    """Those that have ended."""
    return list(read_runs(sorted(path.parent for path in folder.glob("*/scores.json"))))


def _overview(title: str, runs: Iterable[Run]) -> str:
    lines = head(title, [*map(named, MAIN), "CPU s per edit", "peak GiB"])
    for run in runs:
        costs = run.scores.edits
        memory = f"{costs.peak_memory_bytes / 2**30:.1f}" if costs.peak_memory_bytes else "–"
        lines.append(row(_name(run), [*cells_of(run, MAIN), memory]))
    return "\n".join(lines)


def cells_of(run: Run, measures: Sequence[Measure]) -> list[str]:
    """Scores right after the edits, with their intervals, and the seconds of an edit."""
    edited, costs = run.spec.method != "none", run.scores.edits
    scores = {(one.stage, one.axis, one.preset, one.metric): one for one in run.scores.scores if _pooled(one)}
    kept = [scores["own", *one] if edited or one[2] != "unchanged" else None for one in measures]
    seconds = f"{costs.cpu_seconds / costs.edits:.3g}" if edited else "–"
    return [*(interval(one) if one else "100" for one in kept), seconds]


def _in_a_row(runs: Sequence[Run]) -> str:
    measures = (
        ("update", "synthetic", "token_match"),
        ("update", "wild_chat", "exact_match"),
        ("update", "wild_chat", "contains"),
        ("rephrase", "synthetic", "token_match"),
        ("locality", "synthetic", "unchanged"),
        ("locality", "wild_chat", "unchanged"),
    )
    lines = head("In a row", ["edits", *map(named, measures), "CPU s per edit"])
    for run in runs:
        batch = f", by {run.spec.batch_size}" if run.spec.batch_size > 1 else ""
        costs = run.scores.edits
        for count, scores in sorted(_by_edits(run).items()):
            cells = [share(scores[one].mean) for one in measures]
            lines.append(
                row(f"`{run.spec.method}`{batch}", [f"{count:,}", *cells, f"{costs.cpu_seconds / costs.edits:.3g}"])
            )
    return "\n".join(lines)


def _by_edits(run: Run) -> dict[int, dict[tuple[str, str, str], Score]]:
    """Of all edits so far, after each number of them."""
    found: dict[int, dict[tuple[str, str, str], Score]] = {}
    for one in run.scores.scores:
        if one.stage in ("partial", "own") and one.model_state:
            edits = one.model_state.edits or run.scores.edits.edits
            found.setdefault(edits, {})[one.axis, one.preset, one.metric] = one
    return found


def _pooled(score: Score) -> bool:
    return score.timestep is None


def _name(run: Run) -> str:
    return "no edit" if run.spec.method == "none" else f"`{run.spec.method}`{HELD[run.spec.protocol]}"


def named(measure: Measure) -> str:
    """The head of a column."""
    axis, preset, metric = measure
    said = {"locality": "unchanged"}.get(axis, axis)
    return f"{said}, `{preset}`" + (", contains" if metric == "contains" else "")


def head(title: str, columns: list[str]) -> list[str]:
    """The first two lines of a table."""
    return [row(title, columns), row(":--", ["--:"] * len(columns))]


if __name__ == "__main__":
    sys.stdout.write(tables(Path(sys.argv[1])) + "\n")
