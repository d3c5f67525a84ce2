"""``kgedit publish``, ``submit`` and ``leaderboard``: share timesteps and finished runs, and rank runs."""

from __future__ import annotations

import click

from kgedit.cli.formats import print_result, print_tables, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.publish import Publish, RankRuns, SubmitRun


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
