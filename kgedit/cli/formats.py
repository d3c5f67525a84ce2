"""How a command prints its result: for people, or as JSON for programs; progress and notes go to stderr either way.

Field names of the JSON are documented in docs/json.md and stay as they are.
"""

from __future__ import annotations

from typing import Any

import click

_KEY = "kgedit.cli.format"


def _remember(context: click.Context, _parameter: click.Parameter, value: str) -> str:
    context.meta[_KEY] = value
    return value


ROW_FORMATS = ("table", "json", "csv")
"""Of commands that print rows."""

rows_format = click.option(
    "--format", "form", type=click.Choice(ROW_FORMATS), default="table", show_default=True, help="What is printed."
)
"""The option of a command that prints rows (kgedit.cli.query.print_rows), as its argument `form`."""

result_format = click.option(
    "--format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    expose_value=False,
    callback=_remember,
    help="What is printed.",
)
"""The option of every other command, which then ends in `print_result`."""


def wants_json() -> bool:
    """Whether the command that is running was asked for JSON."""
    return click.get_current_context().meta.get(_KEY) == "json"


def print_result(document: Any, *, text: object = None) -> None:
    """Print a command's result on stdout.

    Args:
        document: For programs: mappings, lists, text, numbers; what is none of these is written as its text.
        text: For people; None where what was said on stderr is all.
    """
    if wants_json():
        print_json(document)
    elif text is not None:
        click.echo(text)


def print_json(document: Any) -> None:
    """Print a document as JSON."""
    import json

    click.echo(json.dumps(document, indent=1, ensure_ascii=False, default=str))
