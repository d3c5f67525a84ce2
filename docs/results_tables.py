"""Prints the tables at the head of docs/results.md from the runs of docs/results.sh: results_tables.py OUT"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from kgedit.analysis.runs import Run
from kgedit.records.scores import Score
from kgedit.runs.run_files import read_runs

SETS = {"pat": "pat", "qaedit": "QAEdit"}
METHODS = ("none", "lora", "locft_bf", "ft_m", "rome", "memit", "rag")
HELD = {"single": ", one by one", "per_timestep": ", all at once"}
FREE = ("wild", "wild_chat", "few_shot")
RULE = "single_answer"
COLUMNS = ("`synthetic`", "`wild`", "`wild_chat`", "`few_shot`", "empty under `wild`", "rephrase, `synthetic`")
COLUMNS = (*COLUMNS, "locality unchanged", "CPU s per edit")


def tables(out: Path) -> str:
    """All tables."""
    runs = {name: _in_order(read_runs(sorted(path for path in (out / name).iterdir()))) for name in SETS}
    return "\n\n".join([*(_overview(SETS[name], own) for name, own in runs.items()), _by_rule(runs)])


def _in_order(runs: Iterable[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: METHODS.index(run.spec.method))


def _overview(title: str, runs: list[Run]) -> str:
    lines = [row(title, COLUMNS), row(":--", ["--:"] * len(COLUMNS))]
    for run in runs:
        main = [interval(_score(run, "update", preset.name, preset.metric)) for preset in run.spec.presets]
        rest = [
            share(_score(run, "update", "wild", "empty").mean),
            share(_score(run, "rephrase", "synthetic", "token_match").mean),
            interval(_score(run, "locality", "synthetic", "unchanged")) if _edits(run) else "100",
            f"{run.scores.edits.cpu_seconds / run.scores.edits.edits:.3g}" if _edits(run) else "–",
        ]
        lines.append(row(_name(run), [*main, *rest]))
    return "\n".join(lines)


def _by_rule(runs: dict[str, list[Run]]) -> str:
    columns = [f"{SETS[name]}: `{preset}`" for name in runs for preset in FREE]
    lines = [row(f"right by `{RULE}`", columns), row(":--", ["--:"] * len(columns))]
    for method in METHODS:
        shown = [next((run for run in own if run.spec.method == method), None) for own in runs.values()]
        present = [run for run in shown if run]
        if present:
            cells = [
                share(_score(run, "update", preset, RULE).mean) if run else "–" for run in shown for preset in FREE
            ]
            lines.append(row(_name(present[0]), cells))
    return "\n".join(lines)


def _score(run: Run, axis: str, preset: str, metric: str) -> Score:
    """Right after the edits; of a run without any, before."""
    stage = "own" if _edits(run) else "before"
    (found,) = [
        score
        for score in run.scores.scores
        if (score.stage, score.axis, score.preset, score.metric) == (stage, axis, preset, metric)
        and score.timestep is None
    ]
    return found


def _edits(run: Run) -> bool:
    return run.spec.method != "none"


def _name(run: Run) -> str:
    if not _edits(run):
        return "no edit"
    return f"`{run.spec.method}`" + ("" if run.spec.method == "rag" else HELD[run.spec.protocol])


def interval(score: Score) -> str:
    if score.low is None or score.high is None:
        return share(score.mean)
    return f"{share(score.mean)} [{share(score.low)}, {share(score.high)}]"


def share(value: float) -> str:
    return f"{100 * value:.1f}".removesuffix(".0")


def row(head: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([head, *cells])} |"


if __name__ == "__main__":
    sys.stdout.write(tables(Path(sys.argv[1])) + "\n")
