"""`kgedit stats`: builds second moments of down-projection inputs before the runs that need them."""

from __future__ import annotations

from pathlib import Path

import click

from kgedit.cli import completion
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars
from kgedit.cli.timesteps import TIMESTEP, TIMESTEP_FORMS
from kgedit.errors import SpecError

_EPILOG = examples(
    "kgedit stats --model smollm2-135m --timestep kgedit-data/timesteps/20211230_20231230 --layers 4-8",
    "kgedit stats --model smollm2-135m --text notes.txt --text more.txt --layers 5 --null-space 0.05",
    before="""\
A run finds them when it reads the same text, tokens and length; for text files:
  kgedit run-edit --method memit --set corpus=notes.txt ...""",
)


@click.command("stats", epilog=_EPILOG)
@click.option("--model", required=True, metavar="NAME", shell_complete=completion.models,
              help="smollm2-135m, a folder, or a name on the hub.")  # fmt: skip
@click.option("--layers", required=True, metavar="LAYERS", help="Blocks, such as 4-8 or 3,5,7.")
@click.option("--timestep", metavar=TIMESTEP, shell_complete=completion.timesteps,
              help=f"Use the known facts of this one: {TIMESTEP_FORMS}.")  # fmt: skip
@click.option(
    "--text",
    "texts",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Use a file: text, .jsonl or .parquet with a field text, .gz.",
)
@click.option(
    "--tokens", type=click.IntRange(1), help="Maximum number of tokens. Default 26 per dimension, at least 40,000."
)
@click.option("--length", default=128, show_default=True, type=click.IntRange(2), help="Number of tokens per row.")
@click.option(
    "--null-space",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Build null spaces with this share of the trace of C.",
)
@click.option("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N, cuda:all, mps. Default auto.")
@click.option("--dtype", default="auto", metavar="NAME", help="auto, float32, bfloat16 or float16. Default auto.")
@result_format
def stats(
    model: str,
    layers: str,
    timestep: str | None,
    texts: tuple[Path, ...],
    tokens: int | None,
    length: int,
    null_space: float | None,
    device: str,
    dtype: str,
) -> None:
    """Build the statistics of ROME, MEMIT and AlphaEdit.

    They are the second moments of the inputs of down-projections. Prints one line per layer: its index, the number of
    tokens read, the condition number of the matrix, the number of directions of its null space (if requested) and the
    file. Existing ones are not rebuilt.
    """
    from kgedit.verbs.statistics import build_statistics

    if bool(timestep) == bool(texts):
        raise SpecError(["give either --timestep FOLDER or --text FILE (once or more)"])
    with bars() as add:
        table = build_statistics(
            model,
            layers,
            timestep=timestep,
            texts=texts,
            tokens=tokens,
            length=length,
            null_space=null_space,
            device=device,
            dtype=dtype,
            progress=add,
        )
    if wants_json():
        print_json(table.to_pylist())
        return
    for row in table.to_pylist():
        read = f"{row['tokens']} tokens, {row['tokens'] / row['width']:.3g} for each dimension"
        line = f"layer {row['layer']}\t{read}\tcondition {row['condition']:.3g}"
        if row["null_space"] is not None:
            line += f"\tnull space {row['null_space']} of {row['width']}"
        click.echo(f"{line}\t{row['file']}")
