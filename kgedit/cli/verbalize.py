"""Questions and templates by a language model: ``kgedit verbalize`` and related commands, ``kgedit build-qaedit``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.asking import DRY_RUN, ESTIMATE, estimate_document, tell_asked, tell_without_asking
from kgedit.cli.formats import print_json, print_result, print_rows, result_format, rows_format, wants_json
from kgedit.cli.progress import bar, bars, say
from kgedit.cli.verb_command import Given, verb_command
from kgedit.errors import ModelError
from kgedit.progress import Advance
from kgedit.resources import home as default_home
from kgedit.verbs.build_qaedit import BuildQaedit, HelperOptions, estimate_qaedit
from kgedit.verbs.verbalize import CompareVerbalizers, MineTemplates, Verbalize

if TYPE_CHECKING:
    from kgedit.verbs.build_qaedit import QaeditFile


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
    _print_counts(made.counts)
    print_result({"folder": made.timestep.folder, "counts": made.counts}, text=made.timestep.folder)


def _print_counts(counts: dict[str, Any]) -> None:
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


@verb_command(
    BuildQaedit,
    HelperOptions,
    name="build-qaedit",
    more=(ESTIMATE, result_format),
    examples=(
        "kgedit build-qaedit NQ-open.dev.jsonl simple_qa_test_set.csv --out qaedit.json --limit 1000",
        "kgedit build-qaedit simple_qa_test_set.csv --locality NQ-open.dev.jsonl --out qaedit.json",
    ),
)
def build_qaedit(given: Given, *, estimate: bool) -> None:
    """Build the file and print its counts, or estimate the cost of the model."""
    helper = given.make(HelperOptions).helper()
    if estimate:
        if helper is None:
            raise ModelError("--estimate needs a model: give --model NAME.")
        estimates = estimate_qaedit(given.values["sources"], helper, limit=given.values["limit"])
        if wants_json():
            print_json({part: estimate_document(found) for part, found in estimates.items()})
        else:
            _print_estimate(estimates)
        return
    with bars() as add:
        shown: list[Advance] = []

        def progress(done: int, total: int) -> None:
            if not shown or done == 1:
                shown[:] = [add("Asking the model", total, "questions")]
            shown[0](done, done)

        made = given.make(BuildQaedit, model=helper, progress=progress).run()
    _print_made(made)
    print_result({"path": made.path, "provenance": made.provenance}, text=made.path)


def _print_made(made: QaeditFile) -> None:
    provenance = made.provenance
    for source in provenance["sources"]:
        say(f"{source['file']} ({source['form']}): {source['usable']:,} of {source['rows']:,} rows usable")
        for reason, count in source["left_out"].items():
            say(f"  left out: {reason}: {count:,}")
    for reason, count in provenance["left_out"].items():
        say(f"left out: {reason}: {count:,}")
    for part, rules in provenance["done"].items():
        say(f"{part}: " + ", ".join(f"{rule} {count:,}" for rule, count in sorted(rules.items(), key=_most_first)))
    for reason, count in provenance.get("model", {}).get("kept", {}).items():
        say(f"left to the rules: {reason}: {count:,}")
    if provenance["locality"] is None:
        say("No locality questions: --locality FILE draws them from a set of questions.")


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def _print_estimate(estimates: Mapping[Any, Any]) -> None:
    for part, estimate in estimates.items():
        counted = "by the tokenizer" if estimate.exact else "by four characters a token, which may be far off"
        money = "unknown: no price, give --prices FILE" if estimate.dollars is None else f"${estimate.dollars:.4f}"
        calls = estimate.requests - estimate.cached
        click.echo(f"{part}: {calls:,} calls ({estimate.cached:,} more are in the cache)")
        click.echo(f"  tokens: {estimate.prompt_tokens:,} in, {estimate.new_tokens:,} out, counted {counted}")
        click.echo(f"  cost: {money}")
