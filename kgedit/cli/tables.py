"""Tables of results on the terminal: split into grids that fit its width."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kgedit.cli.cells import table_cell

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from kgedit.analysis.tables import Table


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables on stdout, each as wide as the terminal allows."""

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
