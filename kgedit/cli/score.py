"""``kgedit score``: judge the stored answers of finished runs by further metrics, without asking any model."""

from __future__ import annotations

from pathlib import Path

import click

from kgedit.cli import completion
from kgedit.cli.examples import examples


@click.command("score", epilog=examples("kgedit score runs/ft_m --metric first_line --metric fluency"))
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    required=True,
    shell_complete=completion.metrics,
    help="A metric; repeat.",
)
def score(runs: tuple[Path, ...], *, metrics: tuple[str, ...]) -> None:
    """Judge stored answers by further metrics.

    Each RUN is a folder that run-edit wrote. Its answers.jsonl is judged again, no model is asked, and scores.json then
    holds these metrics too, beside those that every run is scored by; so does kgedit report. A table for each metric
    shows every axis and preset that it can judge.
    """
    from kgedit.analysis.metric_table import metric_table
    from kgedit.cli.progress import say
    from kgedit.cli.report import print_tables
    from kgedit.metrics import METRICS
    from kgedit.runs.run_files import read_runs, require_finished
    from kgedit.runs.scoring import write_scores

    notes = {
        name: f"{METRICS[name].formula}; {'higher' if METRICS[name].higher_is_better else 'lower'} is better."
        for name in metrics
    }
    for folder in runs:
        require_finished(folder)
    for folder in runs:
        say(f"Scored: {write_scores(folder, also=metrics)}")
    tables = [metric_table(read_runs(runs), name, note=note) for name, note in notes.items()]
    print_tables([table for table in tables if table.rows])
    for table in tables:
        if not table.rows:
            say(f"{table.title} can judge no answer of these runs.")
