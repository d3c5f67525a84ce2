"""``kgedit report``: compares the scores of finished runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kgedit.cli.cells import table_cell, visible
from kgedit.cli.desktop import open_in_browser, open_page
from kgedit.cli.formats import print_result, result_format, wants_json
from kgedit.cli.progress import say
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home
from kgedit.verbs.report import ReportRuns
from kgedit.verbs.view import ViewRuns

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from kgedit.analysis.tables import Table
    from kgedit.verbs.report import Report

_LINE = 100
"""Maximum width of the sentences under the table."""

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
        say(f"{left} more tables: --all. Every answer on a page: kgedit view")


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
