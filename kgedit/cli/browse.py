"""``kgedit find``, ``browse`` and ``explore``: search items, open Neo4j Browser on one, view changes."""

from __future__ import annotations

from dataclasses import replace

import click

from kgedit.cli.formats import open_in_browser, open_page, print_result, print_rows, result_format, rows_format
from kgedit.cli.progress import say
from kgedit.cli.verb_command import verb_command
from kgedit.resources import data_folder
from kgedit.resources import home as default_home
from kgedit.verbs.explore import Explore
from kgedit.verbs.query import Browse, Find


@verb_command(Find, name="find", words="name", more=(rows_format,), examples=("kgedit find Germany",))
def find(given: Find, *, form: str) -> None:
    """Print ids, labels and descriptions."""
    print_rows(given.run(default_home()).to_pylist(), form)


_PRINT = click.option("--print", "only_print", is_flag=True, help="Print the address and do not open a browser.")


@verb_command(
    Browse,
    name="browse",
    more=(_PRINT, result_format),
    examples=("kgedit browse --item Q183 --from 2021-01-04 --to 2023-02-27 --print",),
)
def browse(given: Browse, *, only_print: bool) -> None:
    """Print the page's address, and open it."""
    if (given.older is None) != (given.newer is None) or (given.older and given.item is None):
        raise click.UsageError("Give --from and --to together, and with --item.")
    page = given.run(default_home())
    style = data_folder("cypher") / "browser"
    result = {
        "url": page.url,
        "user": page.user,
        "password_file": page.password_file,
        "entry": page.entry,
        "style_folder": style,
    }
    print_result(result, text=page.url)
    if page.entry is not None:
        click.echo(f"Opens it without a password: {page.entry}", err=True)
    click.echo(f"User {page.user}, password in {page.password_file}", err=True)
    click.echo(f"Style sheet and saved queries: {style}", err=True)
    if not only_print:
        click.launch(page.url if page.entry is None else page.entry.as_uri())


@verb_command(
    Explore, name="explore", more=(open_page,), examples=("kgedit explore", "kgedit explore --no-open --port 8765")
)
def explore(given: Explore, *, opens: bool) -> None:
    """Print the page's address, open it, and serve until Ctrl-C."""
    server = replace(given, announce=say).run()
    click.echo(server.url)
    if opens:
        open_in_browser(server.url)
    server.run()
