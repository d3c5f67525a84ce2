"""Small files derived from the snapshots, in ``$KGEDIT_HOME/explore``, created once and then reused.

There is a folder for each snapshot, each pair of consecutive snapshots, each other pair that was viewed, and one for
all snapshots. A folder is renamed when it is complete and records its snapshots: reloading a snapshot rebuilds its
folders. All of them can be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kgedit.pages.explorer.index_queries import make_changes, make_places, make_terms, make_window
from kgedit.store.engine import literal, open_engine
from kgedit.store.files import only_writer, replace_folder, write_json
from kgedit.store.snapshots import Snapshot

_VERSION = 1
"""Increased when the same snapshots would give different files."""

_MEMORY = "2GB"
_ROW_GROUP = 8192
"""Rows are sorted by the column searched for, so a small group means that a lookup reads little beside its rows."""

Announce = Callable[[str], None]
"""Receives messages about files that are being created."""


def manifest_hash(snapshot: Snapshot) -> str:
    """Digest that distinguishes a snapshot from a reload under the same date."""
    return hashlib.sha256((snapshot.folder / "manifest.json").read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Index:
    """A folder of derived files.

    Attributes:
        folder: Path of the folder.
        of: Snapshots that it is derived from.
        statements: SQL that creates its tables.
        files: Tables that become Parquet files, with the order of their rows.
    """

    folder: Path
    of: tuple[Snapshot, ...]
    statements: tuple[str, ...]
    files: tuple[str, ...]

    def file(self, name: str) -> Path:
        """Path of one of its files."""
        return self.folder / f"{name}.parquet"

    @property
    def is_fresh(self) -> bool:
        """Whether it exists and was derived from exactly these snapshots."""
        about = self.folder / "index.json"
        try:
            return bool(json.loads(about.read_bytes()) == self._about())
        except (FileNotFoundError, ValueError):
            return False

    def make(self) -> None:
        """Create it atomically."""
        aside = self.folder.with_name(f".{self.folder.name}.aside")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        with open_engine(aside / "spill", memory=_MEMORY) as connection:
            for statement in self.statements:
                connection.execute(statement)
            for name in self.files:
                path = literal(aside / f"{name}.parquet")
                connection.execute(f"COPY (FROM {name}) TO {path} (FORMAT parquet, ROW_GROUP_SIZE {_ROW_GROUP})")
        write_json(aside / "index.json", self._about())
        replace_folder(aside, self.folder)

    def _about(self) -> dict[str, object]:
        return {"version": _VERSION, "snapshots": {one.name: manifest_hash(one) for one in self.of}}


@dataclass(frozen=True, slots=True)
class Indexes:
    """All derived files of a home.

    Attributes:
        snapshots: Snapshots, oldest first.
        terms: Files ``term``, ``name`` and ``word``.
        places: One per snapshot; file ``place``.
        changes: One per pair of consecutive snapshots; files ``change`` and ``presence``.
        kinds: Folder of kinds of change, computed on request (kgedit.pages.explorer.differences).
        folder: Folder of all derived files.
    """

    snapshots: tuple[Snapshot, ...]
    terms: Index
    places: tuple[Index, ...]
    changes: tuple[Index, ...]
    kinds: Path
    folder: Path

    def window(self, older: int, newer: int) -> Index:
        """Differences between any two snapshots: file ``differences``, composed of ``changes``, which must exist.

        Args:
            older: Day number of the older snapshot.
            newer: Day number of the newer snapshot.
        """
        steps = [one for one in self.changes if older <= one.of[0].date and one.of[1].date <= newer]
        of = tuple(one for one in self.snapshots if older <= one.date <= newer)
        made = make_window([one.file("change") for one in steps], [one.file("presence") for one in steps], of[-1])
        return Index(self.folder / "windows" / f"{older}_{newer}", of, made, ("differences",))

    def needed(self) -> tuple[Index, ...]:
        """Indexes to create at the start, in order; windows over several snapshots are created on request."""
        between = [self.window(one.of[0].date, one.of[1].date) for one in self.changes]
        return (self.terms, *self.places, *self.changes, *between)

    def remove_others(self) -> None:
        """Remove the files of snapshots that no longer exist."""
        dates = {str(one.date) for one in self.snapshots}
        wanted = {one.folder for one in self.needed()}
        for folder in sorted(self.folder.glob("*/*/")):
            is_window = folder.parent.name == "windows" and set(folder.name.split("_")) <= dates
            if folder not in wanted and not is_window:
                shutil.rmtree(folder)


def indexes_of(home: Path, snapshots: Sequence[Snapshot]) -> Indexes:
    """Derived files of a home's snapshots, whether or not they exist yet."""
    folder, all_of = home / "explore", tuple(snapshots)
    return Indexes(
        all_of,
        Index(folder / "names" / "all", all_of, make_terms(snapshots), ("term", "name", "word")),
        tuple(Index(folder / "places" / str(one.date), (one,), make_places(one), ("place",)) for one in snapshots),
        tuple(
            Index(
                folder / "changes" / f"{old.date}_{new.date}",
                (old, new),
                make_changes(old, new),
                ("change", "presence"),
            )
            for old, new in pairwise(snapshots)
        ),
        folder / "kinds",
        folder,
    )


def make_indexes(home: Path, snapshots: Sequence[Snapshot], *, announce: Announce = lambda _message: None) -> Indexes:
    """Create missing and outdated files, and remove those of snapshots that no longer exist.

    Raises:
        StoreError: if another process is creating them.
    """
    found = indexes_of(home, snapshots)
    folder = home / "explore"
    with only_writer(folder / ".lock", of=f"the derived files in {folder}"):
        for index in found.needed():
            if not index.is_fresh:
                announce(f"Making {index.folder} ({', '.join(one.name for one in index.of)})")
                index.make()
        found.remove_others()
    return found
