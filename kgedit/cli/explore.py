"""``kgedit explore``: shows the changes between the loaded snapshots in a browser."""

from __future__ import annotations

import click

from kgedit.cli.examples import examples
from kgedit.cli.progress import say


@click.command(epilog=examples("kgedit explore", "kgedit explore --no-open --port 8765"))
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port at 127.0.0.1. Default: a free one.")
@click.option("--browser", metavar="URL", help="Address of Neo4j Browser for links. Default: that of the home's graph.")
@click.option("--open/--no-open", "opens", default=True, show_default=True, help="Open the page in a browser.")
def explore(port: int, browser: str | None, opens: bool) -> None:
    """Explore the changes between the loaded snapshots.

    Serves a page on this machine: find an item by name and see its statements in every snapshot, choose two dates and
    see what changed between them, or create a timestep from selected changes. Only a browser with the printed address,
    which contains a token, gets answers. Press Ctrl-C to stop. The first start creates small files in
    $KGEDIT_HOME/explore.
    """
    from kgedit.verbs.explore import explore_server

    server = explore_server(port=port, browser=browser, told=say)
    click.echo(server.url)
    if opens:
        click.launch(server.url)
    server.run()
