"""``kgedit snapshots`` and ``kgedit drop-snapshot``: what the store holds, and taking one out again."""

from __future__ import annotations

import datetime

import click

from kgedit.api.home import Home
from kgedit.cli import completion
from kgedit.cli.examples import examples
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.load_dump import DATE, project
from kgedit.cli.progress import say


@click.command(epilog=examples("kgedit snapshots"))
@click.option("--json", "as_json", is_flag=True, help="Manifests as JSON.")
def snapshots(as_json: bool) -> None:
    """List the snapshots in the store."""
    import json

    home = Home()
    found = home.snapshots()
    if as_json:
        click.echo(json.dumps([snapshot.manifest for snapshot in found], indent=2, ensure_ascii=False))
        return
    if not found:
        say(f"No snapshot is loaded in {home.path}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
        return
    click.echo(f"{'date':<12}{'entities':>12}{'claims':>14}{'facts':>14}  source")
    for snapshot in found:
        manifest = snapshot.manifest
        counts = f"{manifest['entities']:>12,}{manifest['claims']:>14,}{manifest['facts']:>14,}"
        click.echo(f"{manifest['date']:<12}{counts}  {manifest['source']['name']}")


@click.command("drop-snapshot", cls=ResumableCommand, epilog=examples("kgedit drop-snapshot 2021-01-04"))
@click.argument("date", type=DATE, shell_complete=completion.snapshot_dates)
@click.option("--graph/--no-graph", default=True, show_default=True, help="Write the graph anew without it as well.")
def drop_snapshot(date: datetime.datetime, graph: bool) -> None:
    """Remove a snapshot from the store and the graph.

    Timesteps that were exported from it stay. What is interrupted is finished by the same command.
    """
    home = Home()
    home.drop_snapshot(date, graph=False)
    say(f"The snapshot of {date:%Y-%m-%d} is removed from the store.")
    if not graph:
        return
    if home.snapshots():
        project(rebuild=True)
    else:
        home.empty_graph()
        say("The graph is empty.")
