"""Small files derived from the snapshots, in ``$KGEDIT_HOME/explore``: made once, then reused.

A folder for each snapshot, each pair of neighbours, each other pair that was asked for, and all together. A folder is
renamed when whole and says which snapshots it is made of: one that was loaded anew makes its folders anew. All may
be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kgedit.explorer.index_queries import make_changes, make_places, make_terms
from kgedit.explorer.window_queries import make_window
from kgedit.store.engine import literal, open_engine
from kgedit.store.files import only_writer, replace_folder, write_json
from kgedit.store.snapshots import Snapshot

_VERSION = 1
"""Raised whenever the same snapshots would give other files."""

_MEMORY = "2GB"
_ROW_GROUP = 8192

Told = Callable[[str], None]
"""Told what is being made."""


def manifest_hash(snapshot: Snapshot) -> str:
    """What tells a snapshot from one that was loaded anew under its date."""
    return hashlib.sha256((snapshot.folder / "manifest.json").read_bytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Index:
    """A folder of derived files.

    Attributes:
        folder: Where it lies.
        of: The snapshots that it is made of.
        statements: SQL that makes its tables.
        files: Tables that become Parquet files, in the order of their rows.
    """

    folder: Path
    of: tuple[Snapshot, ...]
    statements: tuple[str, ...]
    files: tuple[str, ...]

    def file(self, name: str) -> Path:
        """One of its files."""
        return self.folder / f"{name}.parquet"

    @property
    def is_fresh(self) -> bool:
        """Whether it is there and made of these very snapshots."""
        about = self.folder / "index.json"
        try:
            return bool(json.loads(about.read_bytes()) == self._about())
        except (FileNotFoundError, ValueError):
            return False

    def make(self) -> None:
        """Make it aside, and put it in place as a whole."""
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
        snapshots: Oldest first.
        terms: Files ``term``, ``name`` and ``word``.
        places: One for each snapshot; file ``place``.
        changes: One for each two neighbours; files ``change`` and ``presence``.
        kinds: Folder of what is worked out later (kgedit.explorer.kinds).
        folder: Where all of them lie.
    """

    snapshots: tuple[Snapshot, ...]
    terms: Index
    places: tuple[Index, ...]
    changes: tuple[Index, ...]
    kinds: Path
    folder: Path

    def window(self, older: int, newer: int) -> Index:
        """What changed between any two snapshots: file ``differences``. Composed of ``changes``, which must be there.

        Args:
            older: Day number.
            newer: Day number.
        """
        steps = [one for one in self.changes if older <= one.of[0].date and one.of[1].date <= newer]
        of = tuple(one for one in self.snapshots if older <= one.date <= newer)
        made = make_window([one.file("change") for one in steps], [one.file("presence") for one in steps], of[-1])
        return Index(self.folder / "windows" / f"{older}_{newer}", of, made, ("differences",))

    def needed(self) -> tuple[Index, ...]:
        """Those that are made ahead, in order; windows over several neighbours are made when they are asked for."""
        between = [self.window(one.of[0].date, one.of[1].date) for one in self.changes]
        return (self.terms, *self.places, *self.changes, *between)

    def remove_others(self) -> None:
        """Remove what belongs to snapshots that are gone."""
        dates = {str(one.date) for one in self.snapshots}
        wanted = {one.folder for one in self.needed()}
        for folder in sorted(self.folder.glob("*/*/")):
            is_window = folder.parent.name == "windows" and set(folder.name.split("_")) <= dates
            if folder not in wanted and not is_window:
                shutil.rmtree(folder)


def indexes_of(home: Path, snapshots: Sequence[Snapshot]) -> Indexes:
    """Where the derived files of a home's snapshots lie, or would, and how they are made."""
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


def make_indexes(home: Path, snapshots: Sequence[Snapshot], *, told: Told = lambda _said: None) -> Indexes:
    """Make what is missing or of other snapshots, remove what belongs to snapshots that are gone.

    Raises:
        StoreError: if another process is making them.
    """
    found = indexes_of(home, snapshots)
    folder = home / "explore"
    with only_writer(folder / ".lock", of=f"the derived files in {folder}"):
        for index in found.needed():
            if not index.is_fresh:
                told(f"Making {index.folder} ({', '.join(one.name for one in index.of)})")
                index.make()
        found.remove_others()
    return found
