"""``kgedit write-sample``: writes the sample world as three dump files."""

from __future__ import annotations

from pathlib import Path

import click

from kgedit.cli.examples import examples
from kgedit.cli.formats import print_result, result_format


@click.command(
    "write-sample",
    epilog=examples(
        "kgedit write-sample sample/",
        "kgedit load-dump sample/20210104.json.gz --date 2021-01-04 --redirects sample/redirects.tsv",
    ),
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace the files of an earlier write-sample.")
@result_format
def write_sample(folder: Path, *, overwrite: bool) -> None:
    """Write three small Wikidata dumps to try kgedit with.

    FOLDER receives them and redirects.tsv. They contain real items with their changes between 2021-01-04, 2023-02-27
    and 2024-06-03: enough to try every command in seconds. Prints the written paths.
    """
    from kgedit.sample.generate import SNAPSHOT_DATES, write_world

    names = [f"{date:%Y%m%d}.json.gz" for date in SNAPSHOT_DATES] + ["redirects.tsv"]
    there = [name for name in names if (folder / name).exists()]
    if there and not overwrite:
        raise click.ClickException(f"{folder / there[0]} is there already. Replace it: --overwrite")
    written = list(write_world(folder))
    print_result({"files": written}, text="\n".join(map(str, written)))
