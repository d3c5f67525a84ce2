"""`kgedit stats`: builds second moments of down-projection inputs before the runs that need them."""

from __future__ import annotations

from dataclasses import replace

import click

from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars
from kgedit.cli.verb_command import verb_command
from kgedit.errors import SpecError
from kgedit.verbs.stats import BuildStatistics


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
