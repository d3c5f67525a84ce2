"""``kgedit relations``: reports how functional each property is, measured in a snapshot and declared on Wikidata."""

from __future__ import annotations

from kgedit.cli.formats import print_rows, rows_format
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.relations import Relations


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
