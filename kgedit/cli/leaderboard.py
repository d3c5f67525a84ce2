"""``kgedit leaderboard``: ranks the runs of a board against comparable runs."""

from __future__ import annotations

from pathlib import Path

import click

from kgedit.cli.examples import examples
from kgedit.cli.progress import say, steps

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    epilog=examples(
        "kgedit leaderboard board --html leaderboard.html",
        "kgedit leaderboard runs board --format markdown",
    )
)
@click.argument("paths", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--html", "html_file", type=_FILE, help="Write an HTML page: groups, sortable columns.")
@click.option("--markdown", type=_FILE, help="Write the tables as Markdown to this file.")
@click.option("--csv", "csv_file", type=_FILE, help="Write every number as one CSV table to this file.")
@click.option("--json", "json_file", type=_FILE, help="Write numbers and provenance as JSON to this file.")
@click.option("--overwrite", is_flag=True, help="Replace these files.")
@click.option("--format", "form", type=click.Choice(("table", "json", "csv", "markdown")), default="table",
              show_default=True, help="Output format.")  # fmt: skip
def leaderboard(
    paths: tuple[Path, ...],
    html_file: Path | None,
    markdown: Path | None,
    csv_file: Path | None,
    json_file: Path | None,
    overwrite: bool,
    form: str,
) -> None:
    """Rank comparable runs.

    DIR is a board filled by `kgedit submit`, an entry, a run folder, or a folder of run folders. Only runs with the
    same cases, model, presets, training format and protocol are ranked together. Rows are ordered by an overall score,
    which weights damage to unrelated answers as much as efficacy. Every measure has n and its 95 % interval; a rank is
    a range if paired tests find no significant difference. Runs that differ only in their seed share one row. Entries
    are checked when they are read: an entry whose files or scores differ from the submitted ones is left out, with the
    reason.
    """
    from kgedit.verbs import boards

    with steps("Reading"):
        made = boards.leaderboard(
            paths, html=html_file, markdown=markdown, csv=csv_file, json=json_file, overwrite=overwrite
        )
    for folder, reasons in made.board.left_out.items():
        for reason in reasons:
            say(f"Left out: {folder.name}: {reason}")
    if form == "table":
        from kgedit.cli.report import print_tables

        print_tables(made.tables)
    else:
        click.echo({"json": made.to_json, "csv": made.to_csv, "markdown": made.to_markdown}[form](), nl=False)
    for path in made.files:
        say(f"Written: {path}")
