"""``kgedit score``: scores the stored answers of finished runs by further metrics, without the edited model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kgedit.cli import completion
from kgedit.cli.bertscore import BertScoreOptions, bertscore_options
from kgedit.cli.examples import examples
from kgedit.cli.formats import result_format, wants_json
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.judge import JudgeOptions, judge_options

_EPILOG = examples(
    "kgedit score runs/ft_m --metric first_line --metric fluency",
    "kgedit score runs/* --metric judge --judge-model gpt-4o-mini --estimate",
    "kgedit score runs/* --metric judge --judge-model gpt-4o-mini --judge-errors --budget 2.50",
    "kgedit score runs/ft_m --metric judge --judge-model qwen3 --judge-url http://127.0.0.1:8000/v1",
    "kgedit score runs/ft_m --metric bertscore --bertscore-model ./roberta-large --bertscore-layer 17",
)


@click.command("score", cls=ResumableCommand, epilog=_EPILOG)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path),
                shell_complete=completion.runs)  # fmt: skip
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    required=True,
    shell_complete=completion.metrics,
    help="A metric; repeat.",
)
@result_format
@judge_options
@bertscore_options
def score(runs: tuple[Path, ...], *, metrics: tuple[str, ...], **options: Any) -> None:
    """Score stored answers by further metrics.

    Each RUN is a folder written by run-edit. Its answers.jsonl is scored again without running the edited model, and
    scores.json then also contains these metrics, in addition to those of every run; so does kgedit report. A table per
    metric shows every axis and preset that it can score, with shares in percent as in kgedit report.

    The metric judge requests a verdict from a language model on each distinct free answer. Verdicts go to
    verdicts.jsonl in the run folder; replies are cached, so the same command resumes an interrupted one without paying
    twice. The agreement of the judge with the rules is printed and stored in scores.json.

    The metrics bertscore (F1), bertscore_precision and bertscore_recall compare each free answer with the accepted ones
    by the embeddings of an encoder, set by --bertscore-model. The scores go to bertscores.jsonl.
    """
    from kgedit.cli.bertscore import measure
    from kgedit.cli.judge import judge, tell_judge_estimate
    from kgedit.cli.progress import say
    from kgedit.metrics import METRICS
    from kgedit.metrics.text import BERTSCORES
    from kgedit.runs.run_files import require_finished
    from kgedit.runs.scoring import write_scores

    notes = {
        name: f"{METRICS[name].formula}; {'higher' if METRICS[name].higher_is_better else 'lower'} is better."
        for name in metrics
    }
    judging, encoding = _split(options)
    embeddings = any(name in BERTSCORES for name in metrics)
    for folder in runs:
        require_finished(folder)
    judging.check(runs, asked_for="judge" in metrics)
    encoding.check(runs, asked_for=embeddings)
    if judging.estimate:
        tell_judge_estimate(runs, judging)
        return
    if "judge" in metrics:
        judge(runs, judging)
    if embeddings:
        measure(runs, encoding)
    for folder in runs:
        say(f"Scored: {write_scores(folder, also=metrics)}")
    _show(runs, notes)


def _split(options: Mapping[str, Any]) -> tuple[JudgeOptions, BertScoreOptions]:
    encoding = {name: value for name, value in options.items() if name.startswith("bertscore_")}
    return JudgeOptions(**{name: options[name] for name in options.keys() - encoding}), BertScoreOptions(**encoding)


def _show(runs: Sequence[Path], notes: dict[str, str]) -> None:
    from kgedit.analysis.score_table import metric_table
    from kgedit.analysis.tables import to_json
    from kgedit.cli.bertscore import encoding_line
    from kgedit.cli.judge import agreement_line
    from kgedit.cli.progress import say
    from kgedit.cli.report import print_tables
    from kgedit.metrics.text import BERTSCORES
    from kgedit.runs.run_files import read_runs

    found = read_runs(runs)
    tables = [metric_table(found, name, note=note) for name, note in notes.items()]
    if wants_json():
        click.echo(to_json([table for table in tables if table.rows]), nl=False)
    else:
        print_tables([table for table in tables if table.rows])
    for table in tables:
        if not table.rows:
            say(f"{table.title} can judge no answer of these runs.")
    for encoding in dict.fromkeys(run.scores.encoding for run in found if any(name in BERTSCORES for name in notes)):
        if encoding:
            click.echo(encoding_line(encoding), err=wants_json())
    for run in found if "judge" in notes else []:
        judging = run.scores.judging
        for reason, count in judging.unjudged.items() if judging else ():
            click.echo(f"{run.folder.name}: not judged: {reason}: {count:,} distinct answers", err=wants_json())
        for agreement in judging.agreement if judging else ():
            click.echo(f"{run.folder.name}, {agreement_line(agreement)}", err=wants_json())
