"""Snapshots in the store: ``$KGEDIT_HOME/snapshots/<yyyymmdd>/`` with Parquet files of three tables and a manifest.

The manifest is written last, in a folder that is renamed when it is complete, so every listed snapshot is complete.

Snapshots are compared a part at a time, by groups of buckets with the same subjects. Each snapshot has a power of two
of buckets, by one hash of the subject. Bucket k of B is therefore buckets k, k + B, k + 2B, ... of a snapshot with more
of them.
"""

from __future__ import annotations

import datetime
import glob
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from kgedit.checksums import check_files, checked
from kgedit.errors import DamagedFileError, StoreError
from kgedit.store.bucket_files import bucket_file, bucket_pattern
from kgedit.store.engine import literal
from kgedit.store.files import only_writer
from kgedit.wikidata.times import day_number

SnapshotTable = Literal["claims", "facts", "entities"]

RELATIONS = "relations"
"""Measure of the relations of a whole snapshot: property, subjects and single (functional_counts.sql); stated, dated,
facts and dated_facts (kgedit.timesteps.engines.functionality)."""

SIMILAR_FACTS = "similar"
"""Measure of whole snapshots: subject and property of a change; by place (from 1) subject_like, object and score."""

FORMAT = 2
"""Version of the columns of the files, in manifests. In version 1, facts had ids of statements instead of places."""

SELECTION = 3
"""Version of what parts contain (kgedit.timesteps.needed_pairs), in their manifests. Parts of version 2 lack facts of
merged items, and those without a version items that share the names of subjects."""

VERIFIED = "verified.json"
"""File of a home that records which large files were verified, for later processes."""


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """A complete snapshot.

    Attributes:
        folder: Folder of the snapshot.
        manifest: Source, loader, options and counts.
    """

    folder: Path
    manifest: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} in {str(self.folder)!r}>"

    @property
    def date(self) -> int:
        """Date of the snapshot as a day number, yyyymmdd."""
        return int(self.folder.name)

    @property
    def name(self) -> str:
        """Date of the snapshot as YYYY-MM-DD."""
        return str(self.manifest["date"])

    @property
    def wiki(self) -> str:
        """Site whose article titles its items have, such as "enwiki"."""
        return str(self.manifest["loader"]["wiki"])

    @property
    def is_projected(self) -> bool:
        """Whether it is a projection of a later dump to an earlier day (kgedit.store.as_of)."""
        return "projected" in self.manifest

    @property
    def is_part(self) -> bool:
        """Whether it contains only what changed between two snapshots of another store (kgedit.timesteps.changes_only).

        Each has the measure RELATIONS, the newer one SIMILAR_FACTS too.
        """
        return "part" in self.manifest

    def measured(self, name: str) -> Path:
        """Verified file of a measure of the whole snapshot, if this one is a part of it.

        Raises:
            DamagedFileError: if it is missing or differs from what was written.
        """
        return checked(self.folder / f"{name}.parquet", fix=how_to_reload(self.folder), cache=self._verified)

    @property
    def day(self) -> datetime.date:
        """Date of the snapshot."""
        return datetime.date.fromisoformat(self.name)

    @property
    def buckets(self) -> int:
        """Number of its buckets (kgedit.store.buckets); each table has one file per bucket."""
        return int(self.manifest.get("buckets", 1))  # snapshots of earlier versions had no buckets

    @property
    def claims(self) -> Path:
        """File of its statements, or DuckDB's pattern of the files of all buckets; all are verified before the first
        use, as are those of facts and entities.

        Raises:
            DamagedFileError: if a file differs from what was loaded, or the file of a bucket is missing.
        """
        return self._checked("claims")

    @property
    def facts(self) -> Path:
        """File or pattern of its current facts."""
        return self._checked("facts")

    @property
    def entities(self) -> Path:
        """File or pattern of its entities."""
        return self._checked("entities")

    def files(self, table: SnapshotTable) -> list[Path]:
        """Files of a table, by bucket, without verifying them."""
        return [self.folder / bucket_file(table, number, self.buckets) for number in range(self.buckets)]

    def bucket_file(self, table: SnapshotTable, number: int) -> Path:
        """Verified file of one bucket of a table.

        Raises:
            DamagedFileError: if it is missing or differs from what was loaded.
        """
        path = self.folder / bucket_file(table, number, self.buckets)
        return checked(path, fix=how_to_reload(self.folder), cache=self._verified)

    def check(self) -> None:
        """Verify all of its files before their first use in this process.

        Raises:
            DamagedFileError: if a file is missing, or differs from what was loaded.
        """
        for table in get_args(SnapshotTable):
            self._checked(table)
            for path in self.files(table):
                if not path.is_file():
                    raise DamagedFileError(path, "it is missing", how_to_reload(self.folder))

    def _checked(self, table: SnapshotTable) -> Path:
        files = self.files(table)
        check_files(self.folder, files, fix=how_to_reload(self.folder), cache=self._verified)
        return files[0] if self.buckets == 1 else Path(glob.escape(str(self.folder))) / bucket_pattern(table)

    @property
    def _verified(self) -> Path:
        return self.folder.parents[1] / VERIFIED


def snapshot_folder(home: Path, date: datetime.date) -> Path:
    """Folder for the snapshot of a date, which need not exist."""
    return home / "snapshots" / str(day_number(date))


def how_to_reload(folder: Path) -> str:
    """Instruction for a damaged snapshot."""
    day = f"{folder.name[:4]}-{folder.name[4:6]}-{folder.name[6:8]}"
    if (folder / f"{RELATIONS}.parquet").is_file():
        return f"Remove {folder.parent} and take the changes from the other store again: kgedit load-changes"
    return f"Load the snapshot again from its dump: kgedit load-dump PATH --date {day} --overwrite"


def read_snapshot(folder: Path) -> Snapshot:
    """Read the snapshot in a folder.

    Raises:
        DamagedFileError: if its manifest is damaged.
    """
    path = checked(folder / "manifest.json", fix=how_to_reload(folder))
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        raise DamagedFileError(path, f"it is not JSON ({error})", how_to_reload(folder)) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("date"), str):
        raise DamagedFileError(path, "it describes no snapshot", how_to_reload(folder))
    return Snapshot(folder, manifest)


def list_snapshots(home: Path) -> list[Snapshot]:
    """Complete snapshots, oldest first.

    Raises:
        StoreError: if one was loaded by a version of kgedit that wrote other columns.
        DamagedFileError: if a manifest is damaged.
    """
    manifests = sorted((home / "snapshots").glob("[0-9]*/manifest.json"))
    found = [read_snapshot(path.parent) for path in manifests]
    other = [snapshot for snapshot in found if snapshot.manifest.get("format") != FORMAT]
    if other:
        first, more = other[:3], len(other) - 3
        folders = ", ".join(str(snapshot.folder) for snapshot in first) + (f" and {more} more" if more > 0 else "")
        raise StoreError(
            f"{home} has snapshots that another version of kgedit loaded, with other columns. Remove {folders}, "
            f"and load their dumps again: kgedit load-dump PATH --date {other[0].name}"
        )
    return found


def check_selection(snapshots: Iterable[Snapshot]) -> None:
    """Check that those snapshots that are parts contain what this version of kgedit selects.

    Raises:
        StoreError: if another version selected it.
    """
    for snapshot in snapshots:
        part = snapshot.manifest.get("part")
        if part and part.get("selection") != SELECTION:
            older, newer = part["between"]
            raise StoreError(
                f"{snapshot.folder.parent} contains what changed as another version of kgedit selected it, so that "
                "exports could differ from those of the whole. Remove both snapshots, and take what changed again: "
                f"kgedit drop-snapshot {older}, kgedit drop-snapshot {newer}, "
                f"kgedit load-changes STORE --from {older} --to {newer}"
            )


def refuse_parts(home: Path) -> None:
    """Check that a home contains whole snapshots only, before another one is loaded.

    Raises:
        StoreError: if it contains what changed between two snapshots (kgedit.timesteps.changes_only).
    """
    parts = [snapshot.name for snapshot in list_snapshots(home) if snapshot.is_part]
    if parts:
        raise StoreError(
            f"{home} contains only what changed between {' and '.join(parts)}, which is compared with no other "
            "snapshot. Choose another home with $KGEDIT_HOME."
        )


def open_snapshot(home: Path, date: datetime.date) -> Snapshot:
    """Open the snapshot of a date.

    Raises:
        StoreError: if it is not loaded; the message lists the loaded dates.
    """
    for snapshot in list_snapshots(home):
        if snapshot.date == day_number(date):
            return snapshot
    raise StoreError(f"{_not_loaded(home, date)} Load it: kgedit load-dump PATH --date {date}")


def _not_loaded(home: Path, date: datetime.date) -> str:
    """Message that the snapshot of a date is not loaded, with the loaded dates."""
    loaded = ", ".join(snapshot.name for snapshot in list_snapshots(home)) or "none"
    return f"No snapshot of {date} is loaded in {home} (loaded: {loaded})."


def drop_snapshot(home: Path, date: datetime.date) -> list[Snapshot]:
    """Remove the snapshot of a date and return the remaining ones.

    The folder is renamed first, so that the snapshot is either complete or gone. An interrupted removal is completed.
    If it is a symbolic link, the link and the folder that it leads to are removed.

    Raises:
        StoreError: if it is not loaded; the message lists the loaded dates.
    """
    folder = snapshot_folder(home, date)
    going = folder.with_name(f".{folder.name}.dropped")
    with only_writer(folder.with_name(f".{folder.name}.lock"), of=f"the snapshot of {date}"):
        if was_interrupted := going.is_symlink() or going.is_dir():
            _remove(going)
        # A damaged snapshot can be removed too, so its manifest is not read.
        if (folder / "manifest.json").is_file():
            folder.rename(going)
            _remove(going)
        elif not was_interrupted:
            raise StoreError(f"{_not_loaded(home, date)} Nothing was removed.")
    return list_snapshots(home)


def _remove(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(os.path.realpath(folder))
    if folder.is_symlink():  # last, so that an interrupted removal can find the rest
        folder.unlink()


@dataclass(frozen=True, slots=True)
class BucketGroup:
    """Subjects with one hash, in any snapshot with at least `of` buckets.

    Attributes:
        number: Number of the bucket, in [0, of).
        of: Number of buckets that the subjects are divided into.
    """

    number: int
    of: int

    def rows(self, snapshot: Snapshot, table: SnapshotTable) -> str:
        """SQL relation of the rows of a snapshot's table about these subjects.

        Raises:
            DamagedFileError: if a file is missing or differs from what was loaded.
        """
        paths = [snapshot.bucket_file(table, bucket) for bucket in range(self.number, snapshot.buckets, self.of)]
        return f"read_parquet([{', '.join(literal(glob.escape(str(path))) for path in paths)}])"


def bucket_groups(snapshots: Iterable[Snapshot]) -> list[BucketGroup]:
    """Groups that together contain all subjects; as many as the snapshot with the fewest buckets has."""
    of = min(snapshot.buckets for snapshot in snapshots)
    return [BucketGroup(number, of) for number in range(of)]
