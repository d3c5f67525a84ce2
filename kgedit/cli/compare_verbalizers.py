"""``kgedit compare-verbalizers``: templates and models on the same facts, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgedit.cli import completion
from kgedit.cli.asking import AXES, ServerOptions, server_options, tell_asked
from kgedit.cli.examples import examples
from kgedit.cli.formats import rows_format
from kgedit.cli.interrupts import ResumableCommand
from kgedit.cli.progress import Update, bars
from kgedit.errors import ModelError
from kgedit.untrusted import without_credentials

if TYPE_CHECKING:
    from kgedit.timesteps.verbalizing.verbalizers import Verbalizer

_TEMPLATES = "templates"

_EPILOG = examples(
    "kgedit compare-verbalizers kgedit-data/timesteps/20210104_20230227 --by templates --by local:smollm2-135m",
    "kgedit compare-verbalizers worded --by gpt-4o-mini --by qwen3@http://127.0.0.1:8000/v1 --questions",
)


@click.command("compare-verbalizers", cls=ResumableCommand, epilog=_EPILOG)
@click.argument("timestep", type=click.Path(path_type=Path), shell_complete=completion.timesteps)
@click.option("--by", "names", multiple=True, required=True, metavar="VERBALIZER",
              help="templates, local:NAME, NAME for --base-url, or NAME@URL; repeat.")  # fmt: skip
@click.option("--axis", "axes", multiple=True, type=click.Choice(AXES), help="An axis; repeat. Default: all.")
@click.option("--sample", default=30, show_default=True, type=click.IntRange(min=1), help="Cases to word.")
@click.option("--seed", default=0, show_default=True, help="Seed for drawing the cases.")
@click.option("--questions", is_flag=True, help="Print the questions instead of the measures.")
@rows_format
@server_options
def compare_verbalizers(
    timestep: Path,
    *,
    names: tuple[str, ...],
    axes: tuple[str, ...],
    sample: int,
    seed: int,
    questions: bool,
    form: str,
    **asked_by: Any,
) -> None:
    """Compare templates and models on the same facts.

    TIMESTEP is an exported timestep: its folder, its name in the home's benchmark folder, or two dates as
    2021-01-04..2023-02-27. Each verbalizer words the same cases of it on all axes. By axis, the output shows the share
    of questions that pass the final filters, the reasons for those that fail, and for those that pass: number of words,
    overlap with the template's question, and the share of distinct word pairs. Nothing is written except the cache of
    replies.
    """
    from kgedit.cli.query import print_rows
    from kgedit.resources import home
    from kgedit.timesteps.timestep import Timestep
    from kgedit.verbs.verbalize import WordingOptions, compare

    options = ServerOptions(**asked_by)
    verbalizers = {without_credentials(name): _verbalizer(name, options) for name in dict.fromkeys(names)}
    wording = WordingOptions(axes=axes or AXES, home=home(), prompts=options.prompts, limit=sample, seed=seed)
    with bars() as add:
        started: dict[str, Update] = {}

        def progress(name: str, done: int, total: int) -> None:
            if name not in started:
                started[name] = add(name, total, "records")
            started[name](done, done)

        found = compare(Timestep.open(timestep), verbalizers, options=wording, progress=progress)
    for asked in found.asked.values():
        tell_asked(asked)
    print_rows((found.questions if questions else found.summary).to_pylist(), form)


def _verbalizer(name: str, options: ServerOptions) -> Verbalizer | None:
    if name == _TEMPLATES:
        return None
    if name.startswith("local:"):
        return options.local(name.removeprefix("local:"))
    model, _, url = name.partition("@")
    if not model:
        raise ModelError(f"'{name}' is not a verbalizer. Give templates, local:NAME, NAME or NAME@URL.")
    return options.remote(model, url or None)
