"""``kgedit snapshots``, ``drop-snapshot``, ``relations``, ``cycles``, ``verify``: list, remove, inspect and check."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from kgedit.cli.command_groups import examples
from kgedit.cli.data import project
from kgedit.cli.formats import json_flag, print_json, print_result, print_rows, result_format, rows_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.home import Home
from kgedit.verbs.snapshots import Cycles, DropSnapshot, Relations
from kgedit.verbs.verify import Verify


@click.command(epilog=examples("kgedit snapshots"))
@json_flag
@result_format
def snapshots() -> None:
    """List the snapshots in the store."""
    home = Home()
    found = home.snapshots()
    if wants_json():
        print_json([snapshot.manifest for snapshot in found])
        return
    if not found:
        say(f"No snapshot is loaded in {home.path}. Load one: kgedit load-dump PATH --date YYYY-MM-DD")
        return
    click.echo(f"{'date':<12}{'entities':>12}{'claims':>14}{'facts':>14}  source")
    for snapshot in found:
        manifest = snapshot.manifest
        counts = f"{manifest['entities']:>12,}{manifest['claims']:>14,}{manifest['facts']:>14,}"
        how = "projected from " if snapshot.is_projected else "what changed in " if snapshot.is_part else ""
        click.echo(f"{manifest['date']:<12}{counts}  {how}{manifest['source']['name']}")


@verb_command(DropSnapshot, name="drop-snapshot", more=(result_format,), examples=("kgedit drop-snapshot 2021-01-04",))
def drop_snapshot(given: DropSnapshot) -> None:
    """Remove it from the store, then rebuild the graph."""
    home = Home()
    replace(given, graph=False).run(home.path)
    say(f"The snapshot of {given.date} is removed from the store.")
    print_result({"dropped": str(given.date), "graph": _without_it(home) if given.graph else None})


def _without_it(home: Home) -> dict[str, Any]:
    """Graph of the remaining snapshots."""
    if home.snapshots():
        return project(rebuild=True)
    home.empty_graph()
    say("The graph is empty.")
    return {"facts": 0, "terms": 0}


@verb_command(
    Relations,
    name="relations",
    more=(rows_format,),
    examples=(
        "kgedit relations --date 2023-02-27",
        "kgedit relations --date 2023-02-27 --disagreeing --min-subjects 20",
    ),
)
def relations(given: Relations, *, form: str) -> None:
    """Print one row per property."""
    rows = given.run(default_home()).to_pylist()
    if form == "table":
        shares = ("functional", "dated", "dated_claims")
        rows = [row | {name: f"{row[name]:.3f}" for name in shares} for row in rows]
    print_rows(rows, form)


@verb_command(Cycles, name="cycles", more=(rows_format,), examples=("kgedit cycles --date 2023-02-27",))
def cycles(given: Cycles, *, form: str) -> None:
    """Print one row per member of a cycle."""
    print_rows(given.run(default_home()).to_pylist(), form)


_MORE = (
    click.argument("home", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False),
    json_flag,
    result_format,
)


@verb_command(
    Verify,
    name="verify",
    more=_MORE,
    examples=("kgedit verify", "kgedit verify kgedit-data --record", "kgedit verify --format json"),
)
def verify(given: Verify, *, home: Path | None) -> None:
    """Compare all files, and print the state of each part."""
    record = given.record
    with bars() as steps:
        parts = replace(given, progress=steps).run(home or default_home())
    damaged = [part for part in parts if part.state == "damaged"]
    if wants_json():
        print_json([asdict(part) for part in parts])
    else:
        width = max((len(part.part) for part in parts), default=0) + 2
        click.echo(f"{'part':<{width}}{'files':>7}{'MB':>11}  state")
        for part in parts:
            click.echo(f"{part.part:<{width}}{part.files:>7,}{part.bytes / 1e6:>11,.1f}  {part.state}")
        for part in damaged:
            click.echo("\n" + "\n".join(part.faults) + f"\n  {part.fix}")
        if not record and any(part.state == "no checksum" for part in parts):
            click.echo(
                "\n'no checksum': readable, but nothing to compare with (written by an earlier version, or not "
                "finished). Record checksums of snapshots and timesteps: kgedit verify --record"
            )
    click.get_current_context().exit(1 if damaged else 0)
