"""``kgedit stats``, ``teach`` and ``trace``: statistics, knowledge and layers of a model, before it is edited."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli import completion
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import Given, verb_command
from kgedit.errors import SpecError
from kgedit.verbs.shared_options import TIMESTEP_FORMS
from kgedit.verbs.stats import BuildStatistics
from kgedit.verbs.teach import TeachModel
from kgedit.verbs.trace import TraceModel, tracing_figure

if TYPE_CHECKING:
    from kgedit.verbs.trace import Tracing


@verb_command(
    BuildStatistics,
    name="stats",
    more=(result_format,),
    before_examples="""\
A run finds them when it reads the same text, tokens and length; for text files:
  kgedit run-edit --method memit --set corpus=notes.txt ...""",
    examples=(
        "kgedit stats --model smollm2-135m --timestep 20211230_20231230 --layers 4-8",
        "kgedit stats --model smollm2-135m --text notes.txt --layers 5 --null-space 0.05",
    ),
)
def stats(given: BuildStatistics) -> None:
    """Build them, and print one line per layer."""
    if bool(given.timestep) == bool(given.texts):
        if given.model == "tiny":
            raise SpecError(["tiny is trained on the known facts of a timestep; give it: --timestep FOLDER"])
        raise SpecError(["give either --timestep FOLDER or --text FILE (once or more)"])
    with bars() as add:
        table = replace(given, progress=add).run()
    if wants_json():
        print_json(table.to_pylist())
        return
    for row in table.to_pylist():
        read = f"{row['tokens']} tokens, {row['tokens'] / row['width']:.3g} for each dimension"
        line = f"layer {row['layer']}\t{read}\tcondition {row['condition']:.3g}"
        if row["null_space"] is not None:
            line += f"\tnull space {row['null_space']} of {row['width']}"
        click.echo(f"{line}\t{row['file']}")


@verb_command(
    TeachModel,
    name="teach",
    more=(result_format,),
    before_examples="""\
The taught model is for runs:
  kgedit run-edit --model taught/ --method rome ...""",
    examples=("kgedit teach smollm2-135m --timestep 20210104_20230227 --out taught/",),
)
def teach(given: TeachModel) -> None:
    """Teach the facts, and print what the model knows after each epoch."""
    with bars() as add:
        taught = replace(given, progress=add).run()
    if wants_json():
        print_json(taught.document())
        return
    for number, epoch in enumerate(taught.epochs):
        trained = f"{epoch.rows} prompts, loss {epoch.loss:.3f}" if epoch.loss is not None else "before"
        click.echo(f"epoch {number}\t{trained}\t{epoch.known:.1%} of {taught.facts} facts answered ({taught.preset})")
    if taught.known < given.goal:
        click.echo(
            f"The goal of {given.goal:.0%} was not reached. Remove the folder, and start over with more --epochs."
        )
    click.echo(f"The model is in {taught.folder}: give it as --model {taught.folder}")


_TIMESTEP = click.option("--timestep", metavar="TIMESTEP", shell_complete=completion.timesteps,
                         help=f"Trace known facts of this one: {TIMESTEP_FORMS}.")  # fmt: skip
_FIGURE = click.option("--figure", metavar="DIRECTORY", type=click.Path(path_type=Path, file_okay=False),
                       help="Write the heat maps here as tracing.svg and tracing.png.")  # fmt: skip


@verb_command(
    TraceModel,
    name="trace",
    optional=("edits",),
    more=(_TIMESTEP, _FIGURE, result_format),
    before_examples="""\
The layers that it names are for runs:
  kgedit run-edit --method memit --set layers=4-8 ...""",
    examples=(
        "kgedit trace smollm2-135m --timestep 20210104_20230227 --limit 5",
        "kgedit trace smollm2-135m --edits counterfact.json --state mlp --figure tracing/",
    ),
    several=True,
)
def trace(given: Given, *, timestep: str | None, figure: Path | None) -> None:
    """Trace the facts, and print the shares by layer and position."""
    from kgedit.timesteps.timestep import find_timestep

    edits = given.values["edits"]
    if bool(timestep) == bool(edits):
        raise SpecError(["give either --timestep TIMESTEP or --edits FILE"])
    source = Path(edits) if edits else find_timestep(timestep or "")
    with bars() as add:
        found = given.with_values(edits=source).make(TraceModel, progress=add).run()
    if figure is not None:
        _write_figure(found, given.values["model"], figure)
    if wants_json():
        print_json(found.document())
    else:
        click.echo(found.text())


def _write_figure(found: Tracing, model: str, folder: Path) -> None:
    from kgedit.pages.marks import write_figures

    for path in write_figures([tracing_figure(found, model=model)], folder):
        say(f"wrote {path}")
