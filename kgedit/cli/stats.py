"""`kgedit stats`: what a model's down-projections see, built before the runs that need it."""

from __future__ import annotations

from pathlib import Path

import click

from kgedit.cli.examples import examples
from kgedit.cli.progress import bars
from kgedit.errors import SpecError

_EPILOG = examples(
    "kgedit stats --model smollm2-135m --timestep kgedit-data/benchmark/20211230_20231230 --layers 4-8",
    "kgedit stats --model smollm2-135m --text notes.txt --text more.txt --layers 5 --null-space 0.05",
    before="""\
A run finds them when it reads the same text, tokens and length; for text files:
  kgedit run-edit --method memit --set corpus=notes.txt ...""",
)


@click.command("stats", epilog=_EPILOG)
@click.option("--model", required=True, metavar="NAME", help="smollm2-135m, a folder, or a name on the hub.")
@click.option("--layers", required=True, metavar="LAYERS", help="Blocks, such as 4-8 or 3,5,7.")
@click.option("--timestep", type=click.Path(path_type=Path, file_okay=False), help="Use this one's known facts.")
@click.option(
    "--text", "texts", multiple=True, type=click.Path(path_type=Path, dir_okay=False), help="Use a text file."
)
@click.option("--tokens", default=40_000, show_default=True, type=click.IntRange(1), help="Most tokens read.")
@click.option("--length", default=128, show_default=True, type=click.IntRange(2), help="Tokens of a row.")
@click.option("--null-space", type=click.FloatRange(0, 1), metavar="SHARE", help="Build null spaces of so much of C.")
@click.option("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N or cuda:all. Default auto.")
@click.option("--dtype", default="auto", metavar="NAME", help="auto, float32, bfloat16 or float16. Default auto.")
def stats(
    model: str,
    layers: str,
    timestep: Path | None,
    texts: tuple[Path, ...],
    tokens: int,
    length: int,
    null_space: float | None,
    device: str,
    dtype: str,
) -> None:
    """Build the statistics that ROME, MEMIT and AlphaEdit need.

    They are the second moments of the inputs of down-projections. Prints one line per layer: its index, the tokens
    read, the condition of the matrix, the directions of its null space (where asked for) and the file. What is there
    already is not built again.
    """
    from kgedit.benchmark.timestep import Timestep
    from kgedit.editing.locate_then_edit import second_moments
    from kgedit.llm.devices import resolve_device, resolve_dtype
    from kgedit.llm.loading import load_model
    from kgedit.llm.surgery.layer_lists import parse_layers

    if bool(timestep) == bool(texts):
        raise SpecError(["give either --timestep FOLDER or --text FILE (once or more)"])
    known = Timestep.open(timestep).known_facts() if timestep else []
    corpus = second_moments.corpus_of_facts(known) if timestep else second_moments.corpus_of_files(texts)
    place = resolve_device(device)
    loaded = load_model(model, device=place, dtype=resolve_dtype(dtype, place))
    wanted = parse_layers(layers)
    if wanted[-1] >= len(loaded.blocks):
        raise SpecError([f"--layers: the model has blocks 0 to {len(loaded.blocks) - 1}, not {wanted[-1]}"])
    with bars() as add:
        update = add(f"read {corpus.name}", tokens, "tokens")
        moments = second_moments.second_moments(
            loaded,
            wanted,
            corpus,
            budget=second_moments.TextBudget(tokens, length),
            progress=lambda done, total: update(done, done),  # noqa: ARG005 - the shape of Progress
        )
    for layer, moment in moments.items():
        values = second_moments.eigen(moment)[0].clamp(min=0)
        condition = float(values[-1] / values[0]) if values[0] > 0 else float("inf")
        line = f"layer {layer}\t{moment.tokens} tokens\tcondition {condition:.3g}"
        if null_space is not None:
            kept = second_moments.null_space(moment, threshold=null_space, relative=True).shape[1]
            line += f"\tnull space {kept} of {len(values)}"
        click.echo(f"{line}\t{moment.path}")
