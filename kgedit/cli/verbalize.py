"""``kgedit verbalize``: rewords a timestep's questions with a language model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from kgedit.cli.asking import DRY_RUN, ESTIMATE, tell_asked, tell_without_asking
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import bar, say
from kgedit.cli.verb_command import verb_command
from kgedit.resources import home as default_home
from kgedit.verbs.verbalize import Verbalize


@verb_command(
    Verbalize,
    name="verbalize",
    more=(ESTIMATE, DRY_RUN, result_format),
    examples=(
        "kgedit verbalize 20210104_20230227 --out worded --model gpt-4o-mini --estimate",
        "kgedit verbalize 20210104_20230227 --out worded --model gpt-4o-mini --batch --budget 2",
        "kgedit verbalize 20210104_20230227 --out worded --local smollm2-135m --limit 30",
    ),
)
def verbalize(given: Verbalize, *, estimate: bool, dry_run: bool) -> None:
    """Word the timestep, and print the counts; or only estimate."""
    home = default_home()
    verbalizer = given.verbalizer()
    if estimate or dry_run:
        tell_without_asking(verbalizer, lambda: given.wanted(home), estimate=estimate)
        return
    if given.out is None:
        raise click.UsageError("Name the folder to write: --out FOLDER.")
    with bar("Wording", "records") as progress:
        made = replace(given, progress=progress).run(home)
    if made.asked:
        tell_asked(made.asked)
    _tell(made.counts)
    print_result({"folder": made.timestep.folder, "counts": made.counts}, text=made.timestep.folder)


def _tell(counts: dict[str, Any]) -> None:
    for axis, counted in counts.items():
        sources = ", ".join(f"{count:,} by {source}" for source, count in counted["sources"].items())
        say(f"{axis}: {sources}")
        for reason, count in counted["reasons"].items():
            say(f"{count:>8,} {reason}")
        for reason, count in counted["template_faults"].items():
            say(f"{count:>8,} templates kept although: {reason}")
