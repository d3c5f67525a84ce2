"""Snapshots in the store: ``$KGEDIT_HOME/snapshots/<yyyymmdd>/`` with two Parquet files and a manifest.

The manifest is written last, in a folder that is renamed when it is whole: what is listed can be trusted.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.errors import StoreError
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
    def claims(self) -> Path:
        return self.folder / "claims.parquet"

    @property
    def entities(self) -> Path:
        return self.folder / "entities.parquet"


def snapshot_folder(home: Path, date: datetime.date) -> Path:
    """Where the snapshot of a date lies, or would."""
    return home / "snapshots" / str(day_number(date))


def list_snapshots(home: Path) -> list[Snapshot]:
    """Complete snapshots, oldest first."""
    manifests = sorted((home / "snapshots").glob("[0-9]*/manifest.json"))
    return [Snapshot(path.parent, json.loads(path.read_text(encoding="utf-8"))) for path in manifests]


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
