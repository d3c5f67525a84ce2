"""``kgedit submit``: checks a finished run and submits it to a leaderboard."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from kgedit.cli import completion
from kgedit.cli.dates import DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.timesteps import TIMESTEP, TIMESTEP_FORMS

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(
    epilog=examples(
        "kgedit submit runs/memit --to board --by 'A. Researcher'",
        "kgedit submit runs/memit --to board --timestep benchmark/20210104_20230227 --report memit.html",
    )
)
@click.argument("run", metavar="RUN", type=_FOLDER, shell_complete=completion.runs)
@click.option(
    "--to", "board", required=True, type=_FOLDER, help="Folder of the board, such as a git or hub repository."
)
@click.option("--timestep", "timesteps", multiple=True, metavar=TIMESTEP, shell_complete=completion.timesteps,
              help=f"The run's timestep: {TIMESTEP_FORMS}; repeat in order. Default: that of its spec.")  # fmt: skip
@click.option("--by", "submitter", metavar="NAME", help="Name of the submitter.")
@click.option("--date", **DATE, help="Day of submission. Default: today.")
@click.option("--report", metavar="URL|FILE", help="The run's report page; a file is copied into the entry.")
@click.option("--note", default="", metavar="TEXT", help="One line about the run.")
@click.option("--overwrite", is_flag=True, help="Replace an existing entry of the same run.")
@result_format
def submit(
    run: Path,
    board: Path,
    timesteps: tuple[str, ...],
    submitter: str | None,
    date: datetime.datetime | None,
    report: str | None,
    note: str,
    overwrite: bool,
) -> None:
    """Check a run and submit it to a board.

    RUN is a folder written by run-edit. The command checks the hashes of its files and of its timesteps, that settings,
    model, seed and versions are recorded, that every case was edited and every question answered in every preset, and
    that the scores follow from the answers. A run that fails is rejected with every reason. Otherwise its entry (JSON,
    and the answers in Parquet) is written to entries/ of the board. Nothing is uploaded. The same run gives one entry.
    """
    from kgedit.verbs import boards

    with steps("Checking"):
        made = boards.submit(
            run,
            board,
            timesteps=timesteps,
            submitter=submitter,
            date=date.date() if date else None,
            report=report,
            note=note,
            overwrite=overwrite,
        )
    scores = made.submission.scores
    if made.is_new:
        say(f"Checked: {scores.edits.edits:,} edits, {scores.answers:,} answers, {len(scores.scores):,} scores.")
    else:
        say("This run is already on the board; its entry was not changed. Replace its statement: --overwrite")
    print_result({"entry": made.folder, "name": made.submission.name, "is_new": made.is_new}, text=made.folder)
