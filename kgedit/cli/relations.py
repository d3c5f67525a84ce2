"""``kgedit relations``: reports how functional each property is, measured in a snapshot and declared on Wikidata."""

from __future__ import annotations

import datetime

import click

from kgedit.cli.dates import SNAPSHOT_DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import rows_format
from kgedit.verbs.home import Home

_SHARE = click.FloatRange(0, 1)


@click.command(
    epilog=examples(
        "kgedit relations --date 2023-02-27",
        "kgedit relations --date 2023-02-27 --disagreeing --min-subjects 20",
    )
)
@click.option(
    "--date",
    required=True,
    **SNAPSHOT_DATE,
    help="Date of the snapshot.",
)
@click.option("--disagreeing", is_flag=True, help="Only properties whose two verdicts differ.")
@click.option("--min-subjects", type=click.IntRange(min=1), default=5, show_default=True,
              help="Skip properties with fewer subjects.")  # fmt: skip
@click.option("--min-functional", type=_SHARE, default=0.95, show_default=True,
              help="Share of subjects with one current value that makes a property functional.")  # fmt: skip
@click.option("--min-dated", type=_SHARE, default=0.5, show_default=True,
              help="Share of dated statements that makes a functional property temporal.")  # fmt: skip
@rows_format
def relations(
    date: datetime.datetime,
    disagreeing: bool,
    min_subjects: int,
    min_functional: float,
    min_dated: float,
    form: str,
) -> None:
    """List how functional each property of a snapshot is.

    Each property has two verdicts: MEASURED by the share of its subjects with exactly one current value, and the share
    of its statements with a start, an end or a point in time; DECLARED by the single-value constraints of Wikidata's
    editors, and whether their values are separated by a time. A verdict is temporal (one value after another), single
    (one value) or several. `export-timestep --functional-by` chooses between them. Reads the store; no server is
    needed.
    """
    from kgedit.cli.query import print_rows

    rows = Home().relations(
        date,
        min_subjects=min_subjects,
        min_functional=min_functional,
        min_dated=min_dated,
        disagreeing=disagreeing,
    ).to_pylist()  # fmt: skip
    if form == "table":
        shares = ("functional", "dated", "dated_claims")
        rows = [row | {name: f"{row[name]:.3f}" for name in shares} for row in rows]
    print_rows(rows, form)
