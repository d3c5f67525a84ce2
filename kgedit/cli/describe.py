"""``kgedit describe``: counts the contents of a timestep or a file of edits."""

from __future__ import annotations

from typing import Any

import click

from kgedit.cli.formats import print_rows, rows_format
from kgedit.cli.progress import say
from kgedit.cli.verb_command import Given, verb_command
from kgedit.verbs.describe import DescribeEdits, DescribePage

_LIMIT = click.option("--limit", default=15, show_default=True, type=click.IntRange(min=1),
                      help="Maximum lines per part in the table; json and csv have all.")  # fmt: skip


@verb_command(
    DescribeEdits,
    DescribePage,
    name="describe",
    more=(_LIMIT, rows_format),
    examples=(
        "kgedit describe 20210104_20230227",
        "kgedit describe 20210104_20230227 --html changes.html",
        "kgedit describe 2021-01-04..2023-02-27 --word-cloud words.svg",
        "kgedit describe counterfact-edit.json --model smollm2-135m --format json",
    ),
)
def describe(given: Given, *, limit: int, form: str) -> None:
    """Print the counts, and write the page and its figures."""
    rows = given.make(DescribeEdits).run().to_pylist()
    print_rows(list(_shortened(rows, limit)) if form == "table" else rows, form)
    if any(given.values[name] for name in ("html", "figures", "word_cloud")):
        for path in given.make(DescribePage).run():
            say(f"Written: {path}")


def _shortened(rows: list[dict[str, Any]], limit: int) -> list[dict[str, str]]:
    """First lines of each part, with a line that counts the remaining ones."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    shown = []
    for part, own in parts.items():
        shown += [_shown(row) for row in own[:limit]]
        if len(own) > limit:
            shown.append({"part": part, "name": f"{len(own) - limit:,} more: --limit", "value": "", "share": ""})
    return shown


def _shown(row: dict[str, Any]) -> dict[str, str]:
    value, share = row["value"], row["share"]
    if value is None:
        return {"part": row["part"], "name": row["name"], "value": "", "share": ""}
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    # A day is not a quantity.
    number = f"{value:.0f}" if row["part"] == "dates" else number
    return {"part": row["part"], "name": row["name"], "value": number, "share": "" if share is None else f"{share:.1%}"}
