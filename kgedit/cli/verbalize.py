"""``kgedit verbalize``, ``compare-verbalizers`` and ``mine-templates``: questions and templates by a language model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from kgedit.cli.asking import DRY_RUN, ESTIMATE, tell_asked, tell_without_asking
from kgedit.cli.formats import print_result, print_rows, result_format, rows_format, wants_json
from kgedit.cli.progress import bar, bars, say
from kgedit.cli.verb_command import verb_command
from kgedit.progress import Advance
from kgedit.resources import home as default_home
from kgedit.verbs.verbalize import CompareVerbalizers, MineTemplates, Verbalize


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


@verb_command(
    MineTemplates,
    name="mine-templates",
    more=(ESTIMATE, DRY_RUN, result_format),
    examples=(
        "kgedit mine-templates --date 2021-01-04 --model gpt-4o-mini --estimate",
        "kgedit mine-templates --date 2021-01-04 --model gpt-4o-mini --budget 5 --out mined.yaml",
        "kgedit export-timestep --from 2021-01-04 --to 2023-02-27 --templates mined.yaml",
    ),
)
def mine_templates(given: MineTemplates, *, estimate: bool, dry_run: bool) -> None:
    """Mine templates and print the kept ones, or only estimate the cost."""
    from kgedit.timesteps.verbalizing.mining import wanted_statements

    home = default_home()
    verbalizer = given.verbalizer()
    if estimate or dry_run:
        tell_without_asking(verbalizer, lambda: wanted_statements(given.stated(home)), estimate=estimate)
        return
    if given.out is None:
        raise click.UsageError("Name the catalogue to write: --out FILE.")
    with bar("Stating", "facts") as progress:
        mined, asked = replace(given, progress=progress).run(home)
    if asked:
        tell_asked(asked)
    for reason, count in mined.dropped.items():
        say(f"{count:>8,} statements: {reason}")
    rows = [row for row in mined.table.to_pylist() if row["cloze"] in mined.kept[row["property"]]]
    if not wants_json():
        print_rows(rows, "table")
    print_result({"catalogue": given.out, "templates": rows, "dropped": mined.dropped}, text=given.out)
