"""``kgedit compare-verbalizers``: templates and models on the same facts, side by side."""

from __future__ import annotations

from dataclasses import replace

import click

from kgedit.cli.asking import tell_asked
from kgedit.cli.formats import print_rows, rows_format
from kgedit.cli.progress import bars
from kgedit.cli.verb_command import verb_command
from kgedit.progress import Advance
from kgedit.resources import home as default_home
from kgedit.verbs.verbalize import CompareVerbalizers

_QUESTIONS = click.option("--questions", is_flag=True, help="Print the questions instead of the measures.")


@verb_command(
    CompareVerbalizers,
    name="compare-verbalizers",
    more=(_QUESTIONS, rows_format),
    examples=(
        "kgedit compare-verbalizers 20210104_20230227 --by templates --by local:smollm2-135m",
        "kgedit compare-verbalizers worded --by gpt-4o-mini --questions",
    ),
)
def compare_verbalizers(given: CompareVerbalizers, *, questions: bool, form: str) -> None:
    """Print the measures, or the questions side by side."""
    with bars() as add:
        started: dict[str, Advance] = {}

        def progress(name: str, done: int, total: int) -> None:
            if name not in started:
                started[name] = add(name, total, "records")
            started[name](done, done)

        found = replace(given, progress=progress).run(default_home())
    for asked in found.asked.values():
        tell_asked(asked)
    print_rows((found.questions if questions else found.summary).to_pylist(), form)
