"""`kgedit trace`: the layers at which a model recalls facts, by causal tracing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kgedit.cli import completion
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars, say
from kgedit.cli.timesteps import TIMESTEP, TIMESTEP_FORMS
from kgedit.errors import SpecError

if TYPE_CHECKING:
    from kgedit.verbs.tracing import Tracing

_EPILOG = examples(
    "kgedit trace smollm2-135m --timestep 20210104_20230227 --ask question --context question_answer --limit 5",
    "kgedit trace smollm2-135m --edits counterfact.json --state mlp --figure tracing/",
    before="""\
The layers that it names are for runs:
  kgedit run-edit --method memit --set layers=4-8 ...""",
)


@click.command("trace", epilog=_EPILOG)
@click.argument("model", metavar="MODEL", shell_complete=completion.models)
@click.option("--timestep", metavar=TIMESTEP, shell_complete=completion.timesteps,
              help=f"Trace known facts of this one: {TIMESTEP_FORMS}.")  # fmt: skip
@click.option("--edits", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Trace old answers and locality facts of this file of edits.")  # fmt: skip
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1),
              help="At most N facts that the model answers right.")  # fmt: skip
@click.option("--ask", type=click.Choice(("cloze", "question")), default="cloze", show_default=True,
              help="Wording of the facts; those without a cloze are asked as questions.")  # fmt: skip
@click.option("--context", default="question_only", show_default=True, metavar="NAME",
              help="Text around it, such as question_answer for models that do not answer a bare cloze.")  # fmt: skip
@click.option("--state", "states", multiple=True, type=click.Choice(("hidden", "mlp", "attention")),
              help="States that are restored; repeat. Default: all three.")  # fmt: skip
@click.option(
    "--samples", default=10, show_default=True, type=click.IntRange(1), help="Number of noise samples per fact."
)
@click.option("--noise", default=3.0, show_default=True, type=click.FloatRange(0, min_open=True),
              help="Noise in standard deviations of the subjects' embeddings.")  # fmt: skip
@click.option("--window", type=click.IntRange(1), metavar="N",
              help="MLPs or attentions restored together. Default: 10 of 48 blocks, as published.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of the facts and the noise.")
@click.option("--figure", metavar="DIRECTORY", type=click.Path(path_type=Path, file_okay=False),
              help="Write the heat maps here as tracing.svg and tracing.png.")  # fmt: skip
@click.option("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N, cuda:all, mps. Default auto.")
@click.option("--dtype", default="auto", metavar="NAME", help="auto, float32, bfloat16 or float16. Default auto.")
@result_format
def trace(
    model: str,
    timestep: str | None,
    edits: Path | None,
    limit: int,
    ask: str,
    context: str,
    states: tuple[str, ...],
    samples: int,
    noise: float,
    window: int | None,
    seed: int,
    figure: Path | None,
    device: str,
    dtype: str,
) -> None:
    """Find the layers at which MODEL recalls facts.

    Causal tracing (Meng et al. 2022): noise on the subject's embeddings makes the model forget a fact's answer; then
    the outputs of single blocks, or of several adjacent MLPs or attentions, are restored at one token. Prints the
    effect of each layer at each kind of token, as a share of the decrease in the answer's probability due to the noise,
    and the layers that ROME and MEMIT would edit. Only facts that the model answers correctly are traced.
    """
    from kgedit.timesteps.timestep import find_timestep
    from kgedit.verbs.tracing import trace_model

    if bool(timestep) == bool(edits):
        raise SpecError(["give either --timestep TIMESTEP or --edits FILE"])
    source = edits if edits else find_timestep(timestep or "")
    with bars() as add:
        found = trace_model(
            model,
            source,
            limit=limit,
            ask=ask,
            context=context,
            states=states,
            samples=samples,
            noise=noise,
            window=window,
            seed=seed,
            device=device,
            dtype=dtype,
            progress=add,
        )
    if figure is not None:
        _write_figure(found, model, figure)
    if wants_json():
        print_json(found.document())
    else:
        click.echo(found.text())


def _write_figure(found: Tracing, model: str, folder: Path) -> None:
    from kgedit.pages.figure_files import write_figures
    from kgedit.verbs.tracing import tracing_figure

    for path in write_figures([tracing_figure(found, model=model)], folder):
        say(f"wrote {path}")
