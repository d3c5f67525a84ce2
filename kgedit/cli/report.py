"""``kgedit report``: compares the scores of finished runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli import completion
from kgedit.cli.cells import table_cell
from kgedit.cli.examples import examples
from kgedit.cli.formats import result_format, wants_json
from kgedit.cli.progress import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from kgedit.analysis.tables import Table

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "report",
    epilog=examples(
        "kgedit report runs/ft_m runs/rag --out report/",
        "kgedit report runs/* --html report.html --figures figures/",
        "kgedit report runs/ft_m --by relation --by year --brief",
        "kgedit report runs/* --by subject_count --counts counts.tsv --json report.json",
        'kgedit report runs/* --table "means over models" --table "by timestep"',
        "kgedit report runs/ft_m FT_results.json --easyedit easyedit/",
    ),
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path),
                shell_complete=completion.runs)  # fmt: skip
@click.option("--markdown", type=_FILE, help="Write the tables as Markdown to this file.")
@click.option(
    "--csv", "csv_file", type=_FILE, help="Write the scores as one CSV table to this file, shares as fractions of 1."
)
@click.option("--json", "json_file", type=_FILE, help="Write the tables with numbers as JSON to this file.")
@click.option("--html", "html_file", type=_FILE, help="Write an HTML page: charts, and all answers with search.")
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the page's figures here as SVG and PNG, sized for a paper.",
)
@click.option(
    "--easyedit",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the results of each run here as EasyEdit does: one JSON file a run, by its teacher-forced preset.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write report.md, report.json, report.csv and a CSV file for each table here.",
)
@click.option(
    "--by",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.breakdowns,
    help="Break scores down by relation, tag, kind, scenario, year, cutoff, category, popularity, subject_views, "
    "object_views, subject_count, object_count, locality_basis or hops, bleedover by neighbour_similarity or "
    "neighbour_popularity, or two-hop questions by two_hop_count or two_hop_views; repeat.",
)
@click.option(
    "--counts",
    type=click.Path(exists=True, path_type=Path),
    help="Counts of labels or ids in a corpus (tab, CSV, JSON), or texts to count labels in; for tenths by count.",
)
@click.option(
    "--knowledge-cutoff",
    metavar="YYYY-MM",
    help="Last month of the model's pretraining texts, for --by cutoff. Default: the published one of a listed model.",
)
@click.option("--table", "only", multiple=True, metavar="TEXT", help="Only tables with TEXT in their title; repeat.")
@click.option("--brief", is_flag=True, help="Only the overviews: every run in one row of each table.")
@click.option("--rescore", is_flag=True, help="Score answers.jsonl again first, and replace scores.json.")
@click.option("--overwrite", is_flag=True, help="Replace files of an earlier report.")
@result_format
def report(
    runs: tuple[Path, ...],
    *,
    markdown: Path | None,
    csv_file: Path | None,
    json_file: Path | None,
    html_file: Path | None,
    figures: Path | None,
    easyedit: Path | None,
    by: tuple[str, ...],
    counts: Path | None,
    knowledge_cutoff: str | None,
    out: Path | None,
    only: tuple[str, ...],
    brief: bool,
    rescore: bool,
    overwrite: bool,
) -> None:
    """Compare finished runs in tables.

    Each RUN is a folder written by run-edit, or a results file of EasyEdit: its stated scores are shown in a separate
    table, without intervals and tests, because it has no answers. First come overviews: every run under the presets
    side by side, and by axis, with 95 % intervals clustered by relation and numbers of questions; and means over seeds.
    Then paired tests (permutations of whole relations) between methods on the same questions, one table per axis and
    preset with its cost, the accuracy matrix over timesteps, two-hop questions by their hops, errors by class, and
    forward time. Last come tables over several models: means over models and by timestep, forced against free answers
    with averages over methods, and unsolved questions. The order of rows does not depend on the order of the arguments.
    Only runs with the same cases, model, training format and evaluation share a table; other runs form separate groups
    and are not ranked together. A table too wide for the terminal is split. The page of --html is a single file that
    makes no network requests: a verdict in sentences, the comparison, charts with their numbers, a browser of all
    answers, and provenance.
    """
    from kgedit.verbs.reports import report as make_report

    made = make_report(
        runs,
        out=out,
        markdown=markdown,
        csv=csv_file,
        json=json_file,
        html=html_file,
        figures=figures,
        easyedit=easyedit,
        brief=brief,
        only=only,
        by=by,
        counts=counts,
        knowledge_cutoff=knowledge_cutoff,
        rescore=rescore,
        overwrite=overwrite,
    )
    if rescore:
        for run in made.runs:
            say(f"Measured again: {run.folder / 'scores.json'}")
    if wants_json():
        click.echo(made.to_json(), nl=False)
    else:
        print_tables(made.tables)
    for path in made.files:
        say(f"Written: {path}")


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables on stdout, each as wide as the terminal allows."""
    import os

    from rich.console import Console

    # A pipe or a file has no width; 160 columns fit every table of a run under two presets.
    width = None if os.isatty(1) or "COLUMNS" in os.environ else 160
    console = Console(width=width, highlight=False)
    for table in tables:
        _print_table(console, table)


def _print_table(console: Console, table: Table) -> None:
    for number, columns in enumerate(_columns_that_fit(console, table)):
        title = f"{table.title}, continued" if number else table.title
        # A grid's own title is limited to the width of the grid.
        console.print(title, style="bold", markup=False, soft_wrap=True)
        console.print(_grid(table, columns))
    if table.note:
        console.print(table.note, style="dim", markup=False)
    console.print()


def _columns_that_fit(console: Console, table: Table) -> Iterator[list[int]]:
    """Columns of each grid in turn, as many as fit the terminal; each begins with the key columns."""
    keys = [index for index, column in enumerate(table.columns) if column.key]
    chosen = list(keys)
    for index in range(len(table.columns)):
        if index in keys:
            continue
        if chosen != keys and _width(console, _grid(table, [*chosen, index])) > console.width:
            yield chosen
            chosen = list(keys)
        chosen.append(index)
    yield chosen


def _width(console: Console, drawn: Grid) -> int:
    return console.measure(drawn, options=console.options.update(width=1000)).maximum


def _grid(table: Table, columns: list[int]) -> Grid:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    rows = table.texts()
    for index in columns:
        column = table.columns[index]
        longest = max(len(cell) for cell in (*column.title.split(), *(row[index] for row in rows)))
        heading = "\n".join(textwrap.wrap(column.title, longest))
        # Numbers are never broken; names may be broken, at the end of the line.
        drawn.add_column(heading, justify="right" if column.number else "left", no_wrap=column.number, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(table_cell(row[index])) for index in columns))
    return drawn
