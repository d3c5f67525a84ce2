"""``kgedit relations``: how functional each property is, measured in a snapshot and declared on Wikidata."""

from __future__ import annotations

import datetime

import click

from kgedit.api.home import Home
from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples


@click.command(epilog=examples("kgedit relations --date 2023-02-27"))
@click.option(
    "--date",
    required=True,
    **SNAPSHOT_DATE,
    help="Date of the snapshot.",
)
@click.option("--min-subjects", type=click.IntRange(min=1), default=5, show_default=True,
              help="Skip properties with fewer subjects.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(("table", "json", "csv")), default="table", show_default=True)
def relations(date: datetime.datetime, min_subjects: int, form: str) -> None:
    """List how functional each property of a snapshot is.

    That is the share of a property's subjects that have one current value. Also printed: the share of facts with a
    start or an end time, and the single-value constraints that Wikidata's editors declare, temporal where a time is
    among the separators. Reads the store; no server is needed.
    """
    from kgedit.cli.query import print_rows

    rows = Home().relations(date, min_subjects=min_subjects).to_pylist()
    if form == "table":
        rows = [row | {"functional": f"{row['functional']:.3f}", "dated": f"{row['dated']:.3f}"} for row in rows]
    print_rows(rows, form)
