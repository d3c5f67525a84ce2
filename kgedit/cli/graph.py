"""`kgedit graph`: manages the private Neo4j server of this home."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from kgedit.cli.command_groups import CommandGroup, ResumableCommand, examples
from kgedit.cli.formats import json_flag, print_json, print_result, result_format, wants_json
from kgedit.cli.snapshots import project
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home
from kgedit.verbs.graph import ScopeOptions, StartGraph
from kgedit.verbs.home import Home

if TYPE_CHECKING:
    from kgedit.graph.state import GraphSummary


@click.group(cls=CommandGroup, epilog=examples("kgedit graph start"))
def graph() -> None:
    """Fetch, start, stop and inspect the Neo4j server.

    Each home ($KGEDIT_HOME) has its own server.

    Commands that need the graph start the server themselves and leave it running. With KGEDIT_GRAPH_URI set
    (and KGEDIT_GRAPH_USER, KGEDIT_GRAPH_PASSWORD, KGEDIT_GRAPH_DATABASE) they use that server instead.
    """


@graph.command(cls=ResumableCommand, epilog=examples("kgedit graph install"))
@result_format
def install() -> None:
    """Fetch Neo4j (150 MB) into the cache without starting it.

    For machines with only temporary network access. An existing copy is verified, and fetched again if it is damaged.
    """
    from kgedit.graph.managed.install import install as fetch
    from kgedit.graph.managed.java import find_java

    java = find_java()
    folder = fetch(verify=True)
    print_result({"folder": folder, "java": java.path, "java_version": java.version}, text=folder)
    click.echo(f"It will run on Java {java.version}: {java.path}", err=True)


@verb_command(
    StartGraph,
    name="start",
    group=graph,
    more=(result_format,),
    examples=("kgedit graph start", "kgedit graph start --idle-stop 30m"),
)
def start(given: StartGraph) -> None:
    """Start the server, and print its addresses."""
    address = given.run(home())
    page = address.browser_page()
    print_result({"uri": address.uri, "browser": page}, text=f"{address.uri}\n{page}")


@graph.command(epilog=examples("kgedit graph stop"))
@result_format
def stop() -> None:
    """Shut the server down cleanly."""
    from kgedit.graph.managed.server import ManagedServer

    server = ManagedServer(home())
    was_running = server.stop()
    click.echo(f"Neo4j in {server.folder} {'is stopped' if was_running else 'was not running'}.", err=True)
    print_result({"folder": server.folder, "was_running": was_running})


@verb_command(
    ScopeOptions,
    name="rebuild",
    group=graph,
    about="""\
Rebuild the graph from the snapshots in the store.

The scope is kept unless options set another one. The managed server uses bulk import; the graph of an outside server
(KGEDIT_GRAPH_URI) is emptied first.""",
    more=(result_format,),
    examples=("kgedit graph rebuild --no-evidence",),
)
def rebuild(given: ScopeOptions) -> None:
    """Rebuild the graph, and print what it contains."""
    print_result(project(rebuild=True, scope=given.scope()))


@graph.command(epilog=examples("kgedit graph status --json"))
@json_flag
@result_format
def status() -> None:
    """Show whether the server runs, its address, and what it contains.

    Also shows the path of the password file. Starts nothing; the graph's content is shown only if its server is
    running.
    """

    state = Home().graph_status()
    content = None if state.content is None else asdict(state.content)
    found = asdict(state.server) | {"instead": state.outside, "holds": content}
    if wants_json():
        print_json(found)
        return
    for name, meaning in _LINES.items():
        if found[name] is not None:
            click.echo(f"{meaning:<14} {_formatted(found[name], name)}")
    if state.content:
        _print_content(state.content)
    if found["import_unfinished"]:
        click.echo("The last bulk import was interrupted. Load the graph again before you use it.", err=True)
    if state.outside:
        click.echo(f"KGEDIT_GRAPH_URI is set: commands use {state.outside} and not this server.", err=True)


def _print_content(content: GraphSummary) -> None:
    click.echo(f"{'scope':<14} {content.scope}")
    click.echo(f"{'terms':<14} {content.terms:,}")
    click.echo(f"{'edges':<14} {content.facts:,} facts, {content.claims:,} versions of statements")
    for date, facts in content.snapshots.items():
        state = "being written" if facts is None else f"{facts:,} facts current"
        click.echo(f"{'snapshot':<14} {date // 10000}-{date // 100 % 100:02}-{date % 100:02}, {state}")
    if content.missing_indexes:
        missing = ", ".join(content.missing_indexes)
        click.echo(
            f"A load was interrupted: {missing} missing. The next command that reads the graph builds them.", err=True
        )


_LINES = {
    "running": "running",
    "version": "Neo4j",
    "installed": "jars fetched",
    "pid": "process",
    "bolt": "Bolt",
    "browser": "Browser",
    "store_bytes": "graph on disk",
    "password_file": "password in",
    "log_file": "log",
}


def _formatted(value: object, name: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{int(str(value)) / 1e6:,.1f} MB" if name == "store_bytes" else str(value)
