"""``kgedit verify``: compare all files of a home with their checksums."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from kgedit.cli.formats import json_flag, print_json, result_format, wants_json
from kgedit.cli.progress import bars
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.verify import Verify

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
