"""Snapshots in the store: ``$KGEDIT_HOME/snapshots/<yyyymmdd>/`` with three Parquet files and a manifest.

The manifest is written last, in a folder that is renamed when it is whole: what is listed can be trusted.
"""

from __future__ import annotations

import datetime
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.errors import StoreError
from kgedit.store.files import only_writer
from kgedit.wikidata.times import day_number


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot.

    Attributes:
        folder: Where it lies.
        manifest: Source, loader, options and counts.
    """

    folder: Path
    manifest: dict[str, Any]

    @property
    def date(self) -> int:
        """Its date as a day number, yyyymmdd."""
        return int(self.folder.name)

    @property
    def name(self) -> str:
        """Its date as YYYY-MM-DD."""
        return str(self.manifest["date"])

    @property
    def is_projected(self) -> bool:
        """Whether it shows an earlier day as a later dump dates it (kgedit.store.as_of)."""
        return "projected" in self.manifest

    @property
    def day(self) -> datetime.date:
        """Its date."""
        return datetime.date.fromisoformat(self.name)

    @property
    def claims(self) -> Path:
        return self.folder / "claims.parquet"

    @property
    def facts(self) -> Path:
        return self.folder / "facts.parquet"

    @property
    def entities(self) -> Path:
        return self.folder / "entities.parquet"


def snapshot_folder(home: Path, date: datetime.date) -> Path:
    """Where the snapshot of a date lies, or would."""
    return home / "snapshots" / str(day_number(date))


def list_snapshots(home: Path) -> list[Snapshot]:
    """Complete snapshots, oldest first.

    Raises:
        StoreError: if one was loaded by a version of kgedit that decided no facts.
    """
    manifests = sorted((home / "snapshots").glob("[0-9]*/manifest.json"))
    found = [Snapshot(path.parent, json.loads(path.read_text(encoding="utf-8"))) for path in manifests]
    old = [snapshot.name for snapshot in found if "facts" not in snapshot.manifest]
    if old:
        raise StoreError(
            f"The snapshot of {old[0]} in {home} was loaded by an older kgedit, which stored no facts. "
            f"Remove {found[0].folder.parent} and load the dumps again."
        )
    return found


def open_snapshot(home: Path, date: datetime.date) -> Snapshot:
    """The snapshot of a date.

    Raises:
        StoreError: with the dates there are, if it is not loaded.
    """
    for snapshot in list_snapshots(home):
        if snapshot.date == day_number(date):
            return snapshot
    loaded = ", ".join(str(snapshot.manifest["date"]) for snapshot in list_snapshots(home)) or "none"
    raise StoreError(
        f"No snapshot of {date} is loaded in {home} (loaded: {loaded}). Load it: kgedit load-dump PATH --date {date}"
    )


def drop_snapshot(home: Path, date: datetime.date) -> list[Snapshot]:
    """Remove the snapshot of a date; returns those that are left.

    It is renamed first, so that it is either whole or gone; a removal that was interrupted is finished.

    Raises:
        StoreError: if it is not loaded.
    """
    folder = snapshot_folder(home, date)
    going = folder.with_name(f".{folder.name}.dropped")
    with only_writer(folder.with_name(f".{folder.name}.lock"), of=f"the snapshot of {date}"):
        if not going.is_dir():
            open_snapshot(home, date).folder.rename(going)
        shutil.rmtree(going)
    return list_snapshots(home)
