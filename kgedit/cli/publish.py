"""``kgedit publish``: writes timesteps as a dataset for the Hugging Face hub."""

from __future__ import annotations

from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.verb_command import verb_command
from kgedit.verbs.publish import Publish


@verb_command(
    Publish,
    name="publish",
    more=(result_format,),
    examples=(
        "kgedit publish changes --timestep 20210104_20230227 --timestep 20230227_20240101 --runs runs/memit",
        "kgedit publish changes-2023 --timestep 20210104_20230227",
    ),
)
def publish(given: Publish) -> None:
    """Write the dataset, and print its counts."""
    with steps("Publishing"):
        made = given.run()
    for step in made.manifest["timesteps"]:
        asked = ", ".join(f"{count:,} {axis}" for axis, count in step["questions"].items())
        say(f"{step['config']}: {step['cases']:,} cases; questions: {asked}")
    for run in made.manifest["runs"]:
        say(f"{run['run']}: {run['model']}, {run['method']}, {run['edits']:,} edits")
    say(
        f"{len(made.manifest['files']):,} files, {sum(one['bytes'] for one in made.manifest['files'].values()):,} bytes"
    )
    print_result({"folder": made.folder, "publication": made.manifest}, text=made.folder)
