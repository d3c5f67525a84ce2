"""``kgedit score``: scores the stored answers of finished runs by further metrics, without the edited model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli.asking import ESTIMATE, estimate_document, tell_asked, tell_estimate
from kgedit.cli.formats import print_json, print_tables, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.score import ScoredRuns, ScoreRuns

if TYPE_CHECKING:
    from kgedit.records.scores import Agreement, Encoding


@verb_command(
    ScoreRuns,
    name="score",
    more=(ESTIMATE, result_format),
    examples=(
        "kgedit score runs/ft_m --metric first_line --metric fluency",
        "kgedit score runs/* --metric judge --judge-model gpt-4o-mini --estimate",
        "kgedit score runs/* --metric judge --judge-model gpt-4o-mini --judge-errors --budget 2.50",
        "kgedit score runs/ft_m --metric judge --judge-model qwen3 --judge-url http://127.0.0.1:8000/v1",
        "kgedit score runs/ft_m --metric bertscore --bertscore-model ./roberta-large",
    ),
)
def score(given: ScoreRuns, *, estimate: bool) -> None:
    """Score the answers, and print a table per metric; or only estimate."""
    from kgedit.metrics import METRICS

    notes = {
        name: f"{METRICS[name].formula}; {'higher' if METRICS[name].higher_is_better else 'lower'} is better."
        for name in given.metrics
    }
    if estimate:
        _print_estimate(given)
        return
    with bars() as steps:
        scored = replace(given, progress=steps).run()
    _tell_work(given, scored)
    for file in scored.files:
        say(f"Scored: {file}")
    _show(given.folders, notes)


def _print_estimate(given: ScoreRuns) -> None:
    found = given.estimate()
    if wants_json():
        print_json(estimate_document(found))
        return
    tell_estimate(found)
    if given.judge_errors:
        click.echo("error classes: at most one more call for each answer, for those that are called wrong")


def _tell_work(given: ScoreRuns, scored: ScoredRuns) -> None:
    """Print what judge and encoder did."""
    if scored.asked:
        tell_asked(scored.asked, done="Judged", what="answers", failed="No verdict")
    if scored.classes:
        tell_asked(scored.classes, done="Classes of errors", what="answers", failed="No class")
    if scored.judged is not None:
        say(f"Judged by {given.judge_local}: {scored.judged:,} distinct answers")
    elif given.judges and not scored.asked:
        say("No judge is named: the verdicts in the run folders are kept.")
    if scored.measured is not None:
        say(f"Measured with {given.bertscore_model}: {scored.measured:,} distinct answers")
    elif given.measures:
        say("No encoder is named: the BERTScores in the run folders are kept.")


def _show(runs: Sequence[Path], notes: dict[str, str]) -> None:
    from kgedit.analysis.results_files import metric_table
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
            click.echo(_encoding_line(encoding), err=wants_json())
    for run in found if "judge" in notes else []:
        judging = run.scores.judging
        for reason, count in judging.unjudged.items() if judging else ():
            click.echo(f"{run.folder.name}: not judged: {reason}: {count:,} distinct answers", err=wants_json())
        for agreement in judging.agreement if judging else ():
            click.echo(f"{run.folder.name}, {_agreement_line(agreement)}", err=wants_json())


def _agreement_line(agreement: Agreement) -> str:
    """Agreement of one rule with the judge, in words."""
    details = []
    if agreement.low is not None and agreement.high is not None:
        details.append(f"95 % interval {agreement.low:.1%} to {agreement.high:.1%}")
    if agreement.kappa is not None:
        details.append(f"kappa {agreement.kappa:.2f}")
    agreed = f"the judge and {agreement.rule} agree on {agreement.share:.1%} of {agreement.n:,} answers"
    return f"{agreement.preset}: {agreed}" + (f" ({', '.join(details)})" if details else "")


def _encoding_line(encoding: Encoding) -> str:
    """Encoding of BERTScores in words; scores of different encodings are not comparable."""
    how = ["idf" if encoding.idf else "no idf", "rescaled" if encoding.baseline_sha256 else "not rescaled"]
    later = f"; {encoding.later:,} answers came later and are not measured" if encoding.later else ""
    return (
        f"BERTScore: {encoding.encoder} ({encoding.fingerprint[:8]}), layer {encoding.layer}, {', '.join(how)}{later}"
    )
