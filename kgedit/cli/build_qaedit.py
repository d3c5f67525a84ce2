"""``kgedit build-qaedit``: converts question-answering sets to edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli.formats import print_json, print_result, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import FlagOption, Given, verb_command
from kgedit.errors import ModelError
from kgedit.progress import Advance
from kgedit.verbs.build_qaedit import BuildQaedit

if TYPE_CHECKING:
    from kgedit.verbs.build_qaedit import ModelHelp, QaeditFile

_FILE = click.Path(dir_okay=False, path_type=Path)
_PARTS = click.Choice(("subject", "rephrase", "category"))


def _model_option(*names: Any, **attributes: Any) -> Callable[..., Any]:
    return click.option(*names, cls=FlagOption, group="Model", **attributes)


_MODEL_OPTIONS = (
    _model_option("--model", metavar="NAME", help="Model of an OpenAI-compatible server that does --model-does."),
    _model_option("--model-does", "parts", multiple=True, type=_PARTS, default=("subject", "rephrase"),
                 show_default=True, help="A task for the model; rules do the rest. Repeat for several."),
    _model_option("--model-url", metavar="URL", help="The server, with /v1. Default: OpenAI's."),
    _model_option("--model-key", metavar="VARIABLE", default="OPENAI_API_KEY", show_default=True,
                 help="Environment variable that holds the server's key."),
    _model_option("--tokenizer", metavar="NAME",
                 help="For --estimate: local model with the same tokenizer; else four characters are a token."),
    _model_option("--prompts", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path),
                 help="Your own subject.txt, rephrase.txt or category.txt, in place of those under prompts/qaedit."),
    _model_option("--estimate", is_flag=True, help="Print the estimated cost of the model, without calling it."),
    _model_option("--budget", metavar="USD", type=click.FloatRange(min=0), help="Stop before the model costs more."),
    _model_option("--prices", metavar="FILE", type=_FILE, help="YAML of prices, instead of the shipped one."),
    _model_option("--workers", default=4, show_default=True, type=click.IntRange(1, 256), help="Concurrent calls."),
)  # fmt: skip


def _model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_MODEL_OPTIONS):
        command = option(command)
    return command


@verb_command(
    BuildQaedit,
    name="build-qaedit",
    several=True,
    more=(_model_options, result_format),
    examples=(
        "kgedit build-qaedit NQ-open.dev.jsonl simple_qa_test_set.csv --out qaedit.json --limit 1000",
        "kgedit build-qaedit simple_qa_test_set.csv --locality NQ-open.dev.jsonl --out qaedit.json",
    ),
)
def build_qaedit(given: Given, *, estimate: bool, **model: Any) -> None:
    """Build the file and print its counts, or estimate the cost of the model."""
    helper = _helper(model)
    if estimate:
        from kgedit.verbs.build_qaedit import estimate_qaedit

        if helper is None:
            raise ModelError("--estimate is about a model: give --model NAME.")
        estimates = estimate_qaedit(given.values["sources"], helper, limit=given.values["limit"])
        if wants_json():
            from kgedit.cli.asking import estimate_document

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


def _helper(options: Mapping[str, Any]) -> ModelHelp | None:
    """The model that was named; None without one."""
    if not options["model"]:
        return None
    from kgedit.llm.remote.client import Effort
    from kgedit.llm.remote.server import OPENAI, ChatServer
    from kgedit.verbs.build_qaedit import ModelHelp

    return ModelHelp(
        model=options["model"],
        parts=options["parts"],
        server=ChatServer(url=(options["model_url"] or OPENAI).rstrip("/"), key_variable=options["model_key"]),
        effort=Effort(workers=options["workers"]),
        prices=options["prices"],
        budget=options["budget"],
        tokenizer=options["tokenizer"],
        prompts=options["prompts"],
    )


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
