"""``kgedit build-qaedit``: converts question-answering sets to edits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.asking import ESTIMATE, estimate_document
from kgedit.cli.formats import print_json, print_result, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import Given, verb_command
from kgedit.errors import ModelError
from kgedit.progress import Advance
from kgedit.verbs.build_qaedit import BuildQaedit, HelperOptions, estimate_qaedit

if TYPE_CHECKING:
    from kgedit.verbs.build_qaedit import QaeditFile


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
            _tell_estimate(estimates)
        return
    with bars() as add:
        shown: list[Advance] = []

        def progress(done: int, total: int) -> None:
            if not shown or done == 1:
                shown[:] = [add("Asking the model", total, "questions")]
            shown[0](done, done)

        made = given.make(BuildQaedit, model=helper, progress=progress).run()
    _tell(made)
    print_result({"path": made.path, "provenance": made.provenance}, text=made.path)


def _tell(made: QaeditFile) -> None:
    told = made.provenance
    for source in told["sources"]:
        say(f"{source['file']} ({source['form']}): {source['usable']:,} of {source['rows']:,} rows usable")
        for reason, count in source["left_out"].items():
            say(f"  left out: {reason}: {count:,}")
    for reason, count in told["left_out"].items():
        say(f"left out: {reason}: {count:,}")
    for part, rules in told["done"].items():
        say(f"{part}: " + ", ".join(f"{rule} {count:,}" for rule, count in sorted(rules.items(), key=_most_first)))
    for reason, count in told.get("model", {}).get("kept", {}).items():
        say(f"left to the rules: {reason}: {count:,}")
    if told["locality"] is None:
        say("No locality questions: --locality FILE draws them from a set of questions.")


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def _tell_estimate(estimates: Mapping[Any, Any]) -> None:
    for part, estimate in estimates.items():
        counted = "by the tokenizer" if estimate.exact else "by four characters a token, which may be far off"
        money = "unknown: no price, give --prices FILE" if estimate.dollars is None else f"${estimate.dollars:.4f}"
        calls = estimate.requests - estimate.cached
        click.echo(f"{part}: {calls:,} calls ({estimate.cached:,} more are in the cache)")
        click.echo(f"  tokens: {estimate.prompt_tokens:,} in, {estimate.new_tokens:,} out, counted {counted}")
        click.echo(f"  cost: {money}")
