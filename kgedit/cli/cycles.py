"""``kgedit cycles``: classes below themselves and parts of their own parts, in a snapshot."""

from __future__ import annotations

import datetime

import click

from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import rows_format
from kgedit.verbs.home import Home


@click.command(epilog=examples("kgedit cycles --date 2023-02-27"))
@click.option("--date", required=True, **SNAPSHOT_DATE, help="Date of the snapshot.")
@rows_format
def cycles(date: datetime.datetime, form: str) -> None:
    """List cycles among classes and among containers.

    Prints one row per member of a cycle, by subclass of (P279) and by containment (P131, P171, P279, P361 and P527).
    Filters and kinds of change follow these chains; in a cycle each member counts as below, or within, every other.
    Reads the store; no server is needed.
    """
    from kgedit.cli.query import print_rows

    print_rows(Home().cycles(date).to_pylist(), form)
