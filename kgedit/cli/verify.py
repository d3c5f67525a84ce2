"""``kgedit verify``: compare all files of a home with their checksums."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars
from kgedit.verbs.home import Home


@click.command(epilog=examples("kgedit verify", "kgedit verify kgedit-data --record", "kgedit verify --format json"))
@click.argument("home", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False)
@click.option("--record", is_flag=True, help="Record checksums for snapshots and timesteps that have none.")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@result_format
@click.pass_context
def verify(ctx: click.Context, home: Path | None, record: bool, as_json: bool) -> None:
    """Check that no file of a home is damaged.

    Reads every snapshot, timestep, stream, run, memory and cache in HOME ($KGEDIT_HOME by default) and compares it with
    the checksum recorded when it was written. Other commands check a file before they first use it, and trust large
    files whose size and time have not changed since; this command reads everything. The exit code is 1 if a file is
    damaged.
    """
    with bars() as steps:
        parts = Home(home).verify(record=record, progress=steps)
    damaged = [part for part in parts if part.state == "damaged"]
    if as_json or wants_json():
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
    ctx.exit(1 if damaged else 0)
