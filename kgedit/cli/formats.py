"""Output of commands: text, tables and pages for people, JSON and CSV for programs.

Progress and notes always go to stderr. Field names of the JSON are documented in docs/json.md and do not change.
Text of the graph is made safe to print: a label could contain control sequences or spreadsheet formulas.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from kgedit.analysis.tables import Table
    from kgedit.verbs.report import Report


_LINES_AND_TABS = "\t\n\r"
# C0 and C1 control characters and DEL; line separators; characters that reverse the direction of the following text;
# halves of surrogate pairs, which no terminal encoding can write.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = tuple("=+-@\t\r\n")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def visible(text: str, *, keep: str = "") -> str:
    """The text with each control character as a visible symbol: ␛ for escape, ␊ for a line break, else U+FFFD.

    Args:
        text: Text of the graph.
        keep: Control characters to keep, such as the line breaks of a message with several lines.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _picture(found[0]), text)


def plain_text(value: Any) -> str:
    """A value as text of one cell: empty for None, list items separated by commas."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def table_cell(value: Any) -> str:
    """A value in a form that is safe for the terminal."""
    return visible(plain_text(value))


def csv_cell(value: Any) -> str:
    """A value in a form that is safe for a spreadsheet: possible formulas are prefixed with an apostrophe."""
    text = visible(plain_text(value), keep=_LINES_AND_TABS)
    is_formula = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


_KEY = "kgedit.cli.format"


def _remember(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    context.meta.setdefault(_KEY, value)  # --json, given before --format, has set it
    return value


def _remember_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_KEY] = "json"


ROW_FORMATS = ("table", "json", "csv")
"""Formats of commands that print rows."""

rows_format = click.option(
    "--format", "form", type=click.Choice(ROW_FORMATS), default="table", show_default=True, help="Output format."
)
"""Option of a command that prints rows (`print_rows`), passed as argument `form`."""

result_format = click.option(
    "--format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    expose_value=False,
    callback=_remember,
    help="Output format.",
)
"""Option of all other commands, which end in `print_result`."""

json_flag = click.option(
    "--json", is_flag=True, expose_value=False, callback=_remember_json, help="Same as --format json."
)
"""Short form of `--format json`, for commands whose output programs read most."""


def wants_json() -> bool:
    """Whether the running command should print JSON."""
    return click.get_current_context().meta.get(_KEY) == "json"


def print_result(document: Any, *, text: object = None) -> None:
    """Print a command's result on stdout.

    Args:
        document: Result for programs: mappings, lists, text, numbers; other values are converted to text.
        text: Result for people; None if the messages on stderr are sufficient.
    """
    if wants_json():
        print_json(document)
    elif text is not None:
        click.echo(text)


def print_json(document: Any) -> None:
    """Print a document as JSON; values that JSON does not have become null, if they are numbers, or text."""
    click.echo(json.dumps(_json_value(document), indent=1, ensure_ascii=False, allow_nan=False, default=str))


def _json_value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _json_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        # The durations and points of Neo4j are tuples too.
        return str(value) if type(value).__module__.startswith("neo4j.") else [_json_value(one) for one in value]
    return value


def print_rows(rows: list[dict[str, Any]], form: str) -> None:
    """Print rows as a table, JSON or CSV."""
    if form == "json":
        print_json(rows)
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if rows:
            writer.writerow([csv_cell(name) for name in rows[0]])
        writer.writerows([csv_cell(value) for value in row.values()] for row in rows)
        # In one piece like the other formats: a reader such as head, which ends early, then rarely meets a later write.
        click.echo(text.getvalue(), nl=False)
    else:
        _print_table(rows)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    names = [table_cell(name) for name in rows[0]] if rows else ["no rows"]
    table = Table(*names, header_style="bold", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(table_cell(value) for value in row.values()))
    # Piped output is for programs: one line per row, of any length.
    Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False).print(table)
    click.echo(f"{len(rows):,} rows", err=True)


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables on stdout, each as wide as the terminal allows."""

    from rich.console import Console

    # A pipe or a file has no width; 160 columns fit every table of a run under two presets.
    width = None if os.isatty(1) or "COLUMNS" in os.environ else 160
    console = Console(width=width, highlight=False)
    for table in tables:
        _print_grids(console, table)


_LINE = 100
"""Maximum width of the sentences under a table."""


def print_summary(report: Report) -> None:
    """Print a report's main tables, and its sentences."""
    print_tables(report.summary)
    for sentence in report.sentences:
        click.echo(textwrap.fill(visible(sentence), _LINE, break_long_words=False, break_on_hyphens=False))


def _print_grids(console: Console, table: Table) -> None:
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


open_page = click.option(
    "--open/--no-open", "opens", default=True, show_default=True, help="Open the page, where there is a desktop."
)
"""Option of commands that end in a page."""


def open_in_browser(url: str) -> None:
    """Open a page. Does nothing on a server: a browser would open in the terminal or not at all."""
    shown = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.stdout.isatty() and shown:
        click.launch(url)
