"""``kgedit cycles``: classes below themselves and parts of their own parts, in a snapshot."""

from __future__ import annotations

from kgedit.cli.formats import print_rows, rows_format
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.cycles import Cycles


@verb_command(Cycles, name="cycles", more=(rows_format,), examples=("kgedit cycles --date 2023-02-27",))
def cycles(given: Cycles, *, form: str) -> None:
    """Print one row per member of a cycle."""
    print_rows(given.run(default_home()).to_pylist(), form)
