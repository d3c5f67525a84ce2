"""``kgedit publish``: writes timesteps as a dataset for the Hugging Face hub."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from kgedit.cli import completion
from kgedit.cli.dates import DATE
from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format
from kgedit.cli.progress import say, steps
from kgedit.cli.timesteps import TIMESTEP, TIMESTEP_FORMS

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command(
    epilog=examples(
        "kgedit publish changes-2023 --timestep kgedit-data/timesteps/20210104_20230227",
        "kgedit publish changes --timestep benchmark/20210104_20230227 --timestep benchmark/20230227_20240101 "
        "--runs runs/memit --url https://huggingface.co/datasets/me/changes",
    )
)
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.option("--timestep", "timesteps", multiple=True, required=True, metavar=TIMESTEP,
              shell_complete=completion.timesteps,
              help=f"Exported timestep: {TIMESTEP_FORMS}; repeat for several. The first is the default.")  # fmt: skip
@click.option("--runs", multiple=True, type=_FOLDER, shell_complete=completion.runs,
              help="Finished run on these timesteps whose scores are published too; repeat for several.")  # fmt: skip
@click.option("--name", help="Name of the dataset. Default: the folder's name.")
@click.option("--version", default="1.0.0", show_default=True, help="Of the data set.")
@click.option("--license", "licence", default="cc0-1.0", show_default=True, help="License identifier of the hub.")
@click.option("--url", help="Address where it will be available, for card and metadata.")
@click.option("--date", **DATE, help="Day of publication, for the metadata. Default: none.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier publication.")
@result_format
def publish(
    folder: Path,
    timesteps: tuple[str, ...],
    runs: tuple[Path, ...],
    name: str | None,
    version: str,
    licence: str,
    url: str | None,
    date: datetime.datetime | None,
    overwrite: bool,
) -> None:
    """Write timesteps as a dataset that others can load.

    DIR gets Parquet files with a card (README.md) for the Hugging Face hub, with a configuration per timestep and a
    split per axis; Croissant metadata; tasks of lm-evaluation-harness; the timesteps themselves, with the formats of
    EasyEdit, WikiBigEdit and WikiFactDiff next to them; and the hash of every file. Nothing is uploaded.
    """
    from kgedit.verbs import publishing

    with steps("Publishing"):
        made = publishing.publish(
            folder,
            timesteps,
            runs=runs,
            name=name,
            version=version,
            license=licence,
            url=url,
            date=date.date() if date else None,
            overwrite=overwrite,
        )
    for step in made.manifest["timesteps"]:
        asked = ", ".join(f"{count:,} {axis}" for axis, count in step["questions"].items())
        say(f"{step['config']}: {step['cases']:,} cases; questions: {asked}")
    for run in made.manifest["runs"]:
        say(f"{run['run']}: {run['model']}, {run['method']}, {run['edits']:,} edits")
    say(
        f"{len(made.manifest['files']):,} files, {sum(one['bytes'] for one in made.manifest['files'].values()):,} bytes"
    )
    print_result({"folder": made.folder, "publication": made.manifest}, text=made.folder)
