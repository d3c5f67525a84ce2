"""Output formats of commands: for people, or JSON for programs; progress and notes always go to stderr.

Field names of the JSON are documented in docs/json.md and do not change.
"""

from __future__ import annotations

import csv
import json
import sys
from typing import Any

import click

from kgedit.cli.cells import csv_cell, table_cell

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
    """Print a document as JSON."""

    click.echo(json.dumps(document, indent=1, ensure_ascii=False, default=str))


def print_rows(rows: list[dict[str, Any]], form: str) -> None:
    """Print rows as a table, JSON or CSV."""
    if form == "json":
        print_json(rows)
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        if rows:
            writer.writerow([csv_cell(name) for name in rows[0]])
        writer.writerows([csv_cell(value) for value in row.values()] for row in rows)
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
