"""`kgedit trace`: the layers at which a model recalls facts, by causal tracing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli import completion
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.verb_command import Given, verb_command
from kgedit.errors import SpecError
from kgedit.verbs.shared_options import TIMESTEP_FORMS
from kgedit.verbs.trace import TraceModel, tracing_figure

if TYPE_CHECKING:
    from kgedit.verbs.trace import Tracing

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
    from kgedit.pages.figure_files import write_figures

    for path in write_figures([tracing_figure(found, model=model)], folder):
        say(f"wrote {path}")
