"""``kgedit find`` and ``kgedit browse``: searches items by name, and opens Neo4j Browser on one."""

from __future__ import annotations

import datetime

import click

from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format, rows_format
from kgedit.resources import data_folder
from kgedit.verbs.home import Home


@click.command(epilog=examples("kgedit find Germany"))
@click.argument("name", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Rows to print at most.")
@rows_format
def find(name: tuple[str, ...], limit: int, form: str) -> None:
    """Find items and properties by label or alias.

    Prints ids, labels and descriptions. Exact matches come first, then matches in most facts.
    """
    from kgedit.cli.query import print_rows

    print_rows(Home().find(" ".join(name), limit=limit).to_pylist(), form)


@click.command(epilog=examples("kgedit browse --item Q183 --from 2021-01-04 --to 2023-02-27 --print"))
@click.option("--item", metavar="QID", help="Start with the neighbourhood of this item, such as Q183.")
@click.option(
    "--from",
    "older",
    **SNAPSHOT_DATE,
    help="With --to: what changed around it after this snapshot ...",
)
@click.option(
    "--to",
    "newer",
    **SNAPSHOT_DATE,
    help="... up to this one.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the address and do not open a browser.")
@result_format
def browse(
    item: str | None, older: datetime.datetime | None, newer: datetime.datetime | None, only_print: bool
) -> None:
    """Open Neo4j Browser on the loaded graph.

    Items, properties and values have different colours; edges show the property and the years: "2005–2021" has ended,
    "since 2021" continues. Without dates, --item shows its facts; with --from and --to it shows what began or ended
    between two snapshots. The query is already in the editor: press Ctrl+Enter to run it.
    """
    if (older is None) != (newer is None) or (older and item is None):
        raise click.UsageError("Give --from and --to together, and with --item.")
    page = Home().browser_page(item, older=older, newer=newer)
    style = data_folder("cypher") / "browser"
    told = {"url": page.url, "user": page.user, "password_file": page.password_file, "style_folder": style}
    print_result(told, text=page.url)
    click.echo(f"User {page.user}, password in {page.password_file}", err=True)
    click.echo(f"Style sheet and saved queries: {style}", err=True)
    if not only_print:
        click.launch(page.url)
