"""`write-sample`: writes the sample world as dump files."""

from __future__ import annotations

from pathlib import Path

from kgedit.errors import StoreError
from kgedit.verbs.options import AnyFolder, Verb, argument, flag, options


@options
class WriteSample(Verb["list[Path]"]):
    """Write three small Wikidata dumps to try kgedit with.

    FOLDER receives them and redirects.tsv. They contain real items with their changes between 2021-01-04, 2023-02-27
    and 2024-06-03: enough to try every command in seconds. Prints the written paths.
    """

    folder: AnyFolder = argument(kw_only=False, help="Folder to write.")
    overwrite: bool = flag(default=False, group="Output", help="Replace the files of an earlier write-sample.")

    def run(self) -> list[Path]:
        """Write them.

        Raises:
            StoreError: if one of the files exists, unless `overwrite` is set.
        """
        from kgedit.sample.generate import SNAPSHOT_DATES, write_world

        folder = Path(self.folder)
        names = [f"{date:%Y%m%d}.json.gz" for date in SNAPSHOT_DATES] + ["redirects.tsv"]
        there = [name for name in names if (folder / name).exists()]
        if there and not self.overwrite:
            raise StoreError(f"{folder / there[0]} already exists. Replace it: --overwrite")
        return write_world(folder)
