"""``kgedit explore``: shows the changes between the loaded snapshots in a browser."""

from __future__ import annotations

from dataclasses import replace

import click

from kgedit.cli.desktop import open_in_browser, open_page
from kgedit.cli.progress import say
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.explore import Explore


@verb_command(
    Explore, name="explore", more=(open_page,), examples=("kgedit explore", "kgedit explore --no-open --port 8765")
)
def explore(given: Explore, *, opens: bool) -> None:
    """Print the page's address, open it, and serve until Ctrl-C."""
    server = replace(given, told=say).run()
    click.echo(server.url)
    if opens:
        open_in_browser(server.url)
    server.run()
