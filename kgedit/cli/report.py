"""``kgedit report``, ``view``, ``publish``, ``submit`` and ``leaderboard``: compare finished runs and share results."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from kgedit.cli.formats import (
    open_in_browser,
    open_page,
    print_result,
    print_tables,
    result_format,
    visible,
    wants_json,
)
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home
from kgedit.verbs.publish import Publish, RankRuns, SubmitRun
from kgedit.verbs.report import ReportRuns, ViewRuns

if TYPE_CHECKING:
    from kgedit.verbs.report import Report


_LINE = 100
"""Maximum width of the sentences under the table."""

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


def _print_summary(made: Report) -> None:
    print_tables(made.summary)
    for sentence in made.sentences:
        click.echo(textwrap.fill(visible(sentence), _LINE, break_long_words=False, break_on_hyphens=False))
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
