"""``kgedit score``: scores the stored answers of finished runs by further metrics, without the edited model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kgedit.cli.bertscore import BertScoreOptions, encoding_line, measure
from kgedit.cli.formats import result_format, wants_json
from kgedit.cli.judge import JudgeOptions, agreement_line, judge, tell_judge_estimate
from kgedit.cli.progress import say
from kgedit.cli.tables import print_tables
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.options import ManyPaths, Names, argument, flag, options


@options
class ScoreRuns(JudgeOptions, BertScoreOptions):
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

    runs: ManyPaths = argument(metavar="RUN...", complete="runs", help="Folders written by run-edit.")
    metrics: Names = flag("--metric", metavar="NAME", complete="metrics", help="A metric; repeat.")


@verb_command(
    ScoreRuns,
    name="score",
    more=(result_format,),
    examples=(
        "kgedit score runs/ft_m --metric first_line --metric fluency",
        "kgedit score runs/* --metric judge --judge-model gpt-4o-mini --estimate",
        "kgedit score runs/* --metric judge --judge-model gpt-4o-mini --judge-errors --budget 2.50",
        "kgedit score runs/ft_m --metric judge --judge-model qwen3 --judge-url http://127.0.0.1:8000/v1",
        "kgedit score runs/ft_m --metric bertscore --bertscore-model ./roberta-large",
    ),
)
def score(given: ScoreRuns) -> None:
    """Score the answers, and print a table per metric."""
    runs, metrics = [Path(run) for run in given.runs], tuple(given.metrics)
    from kgedit.metrics import METRICS
    from kgedit.metrics.text import BERTSCORES
    from kgedit.runs.run_files import require_finished
    from kgedit.runs.scoring import write_scores

    notes = {
        name: f"{METRICS[name].formula}; {'higher' if METRICS[name].higher_is_better else 'lower'} is better."
        for name in metrics
    }
    embeddings = any(name in BERTSCORES for name in metrics)
    for folder in runs:
        require_finished(folder)
    given.check_judge(runs, asked_for="judge" in metrics)
    given.check_encoder(runs, asked_for=embeddings)
    if given.estimate:
        tell_judge_estimate(runs, given)
        return
    if "judge" in metrics:
        judge(runs, given)
    if embeddings:
        measure(runs, given)
    for folder in runs:
        say(f"Scored: {write_scores(folder, also=metrics)}")
    _show(runs, notes)


def _show(runs: Sequence[Path], notes: dict[str, str]) -> None:
    from kgedit.analysis.score_table import metric_table
    from kgedit.analysis.tables import to_json
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
