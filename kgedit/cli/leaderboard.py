"""``kgedit leaderboard``: ranks the runs of a board against comparable runs."""

from __future__ import annotations

import click

from kgedit.cli.progress import say, steps
from kgedit.cli.tables import print_tables
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.leaderboard import RankRuns

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
