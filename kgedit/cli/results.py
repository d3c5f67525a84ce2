"""Results of finished runs: compared (``kgedit report``, ``view``), scored by further metrics (``score``), and shared.

``publish``, ``submit`` and ``leaderboard`` share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli.asking import ESTIMATE, estimate_document, tell_asked, tell_estimate
from kgedit.cli.formats import (
    open_in_browser,
    open_page,
    print_json,
    print_result,
    print_summary,
    print_tables,
    result_format,
    wants_json,
)
from kgedit.cli.progress import bars, say, steps
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home
from kgedit.verbs.publish import Publish, RankRuns, SubmitRun
from kgedit.verbs.report import ReportRuns, ViewRuns
from kgedit.verbs.score import ScoredRuns, ScoreRuns

if TYPE_CHECKING:
    from kgedit.records.scores import Agreement, Encoding
    from kgedit.verbs.report import Report


_MOST_NAMED = 3
"""Maximum number of runs that the hint to `kgedit view` names."""

_ALL = click.option("--all", "every_table", is_flag=True, help="Print every table.")


@verb_command(
    ReportRuns,
    name="report",
    more=(_ALL, result_format),
    examples=(
        "kgedit report runs/ft_m runs/rag --out report/",
        "kgedit report runs/* --html report.html --figures figures/",
        "kgedit report runs/ft_m --by relation --by year --brief",
        "kgedit report runs/* --by subject_count --counts counts.tsv",
        'kgedit report runs/* --table "means over models" --table "by timestep"',
        "kgedit report runs/ft_m FT_results.json --easyedit easyedit/",
    ),
)
def report(given: ReportRuns, *, every_table: bool) -> None:
    """Print tables and sentences, and the paths of written files."""
    made = given.run()
    if given.rescore:
        for run in made.runs:
            say(f"Measured again: {run.folder / 'scores.json'}")
    if wants_json():
        click.echo(made.to_json(), nl=False)
    elif every_table or given.brief or given.only:
        print_tables(made.tables)
    else:
        _print_summary(made)
    for path in made.files:
        say(f"Written: {path}")
    for note in made.notes:
        say(note)


def _print_summary(made: Report) -> None:
    print_summary(made)
    if left := len(made.tables) - len(made.summary):
        runs = " ".join(str(run.folder) for run in made.runs) if len(made.runs) <= _MOST_NAMED else "RUN..."
        say(f"{left} more tables: --all. Every answer on a page: kgedit view {runs}")


@verb_command(
    ViewRuns,
    name="view",
    more=(open_page, result_format),
    examples=("kgedit view runs/ft_m", "kgedit view runs/ft_m runs/rag --no-open"),
)
def view(given: ViewRuns, *, opens: bool) -> None:
    """Write the page, print its path, and open it."""
    page = given.run(home())
    print_result({"page": page}, text=str(page))
    if opens:
        open_in_browser(page.absolute().as_uri())


@verb_command(
    Publish,
    name="publish",
    more=(result_format,),
    examples=(
        "kgedit publish changes --timestep 20210104_20230227 --timestep 20230227_20240101 --runs runs/memit",
        "kgedit publish changes-2023 --timestep 20210104_20230227",
    ),
)
def publish(given: Publish) -> None:
    """Write the dataset, and print its counts."""
    with steps("Publishing"):
        made = given.run()
    for step in made.manifest["timesteps"]:
        asked = ", ".join(f"{count:,} {axis}" for axis, count in step["questions"].items())
        say(f"{step['config']}: {step['cases']:,} cases; questions: {asked}")
    for run in made.manifest["runs"]:
        say(f"{run['run']}: {run['model']}, {run['method']}, {run['edits']:,} edits")
    say(
        f"{len(made.manifest['files']):,} files, {sum(one['bytes'] for one in made.manifest['files'].values()):,} bytes"
    )
    print_result({"folder": made.folder, "publication": made.manifest}, text=made.folder)


_FORMAT = click.option("--format", "form", type=click.Choice(("table", "json", "csv", "markdown")), default="table",
                       show_default=True, help="Output format.")  # fmt: skip


@verb_command(
    RankRuns,
    name="leaderboard",
    more=(_FORMAT,),
    examples=(
        "kgedit leaderboard board --html leaderboard.html",
        "kgedit leaderboard runs board --format markdown",
    ),
)
def leaderboard(given: RankRuns, *, form: str) -> None:
    """Print the ranks, and what was left out."""
    with steps("Reading"):
        made = given.run()
    for folder, reasons in made.board.left_out.items():
        for reason in reasons:
            say(f"Left out: {folder.name}: {reason}")
    if form == "table":
        print_tables(made.tables)
    else:
        click.echo({"json": made.to_json, "csv": made.to_csv, "markdown": made.to_markdown}[form](), nl=False)
    for path in made.files:
        say(f"Written: {path}")


@verb_command(
    SubmitRun,
    name="submit",
    more=(result_format,),
    examples=(
        "kgedit submit runs/memit --to board --by 'A. Researcher'",
        "kgedit submit runs/memit --to board --timestep 20210104_20230227",
    ),
)
def submit(given: SubmitRun) -> None:
    """Check the run, and print its entry."""
    with steps("Checking"):
        made = given.run()
    scores = made.submission.scores
    if made.is_new:
        say(f"Checked: {scores.edits.edits:,} edits, {scores.answers:,} answers, {len(scores.scores):,} scores.")
    else:
        say("This run is already on the board; its entry was not changed. Replace its statement: --overwrite")
    print_result({"entry": made.folder, "name": made.submission.name, "is_new": made.is_new}, text=made.folder)


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
