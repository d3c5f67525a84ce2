"""`kgedit teach`: fine-tunes a model on the facts that it is to know before they are edited."""

from __future__ import annotations

from dataclasses import replace

import click

from kgedit.cli.formats import print_json, result_format, wants_json
from kgedit.cli.progress import bars
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.teach import TeachModel


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
