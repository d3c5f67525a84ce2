"""One warm DuckDB over the snapshots of a home and their derived files; each question has a cursor of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.explorer.indexes import Indexes, Told, make_indexes
from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot, list_snapshots

_MEMORY = "2GB"
_ID = re.compile(r"[QPL][1-9]\d*")


@dataclass(frozen=True, slots=True)
class ExplorerTerm:
    """An item or a property as the newest snapshot that describes it does.

    Attributes:
        id: QID or PID.
        kind: item or property.
        label: None where it has none in the languages of the load.
        description: Likewise.
        aliases: Further names.
        date: Day number of the snapshot.
        merged_into: Where the newest snapshot redirects it; None for nowhere.
        popularity: Facts of the newest snapshot that it is subject or object of.
    """

    id: str
    kind: str
    label: str | None
    description: str | None
    aliases: tuple[str, ...]
    date: int
    merged_into: str | None
    popularity: int


def is_entity_id(text: str) -> bool:
    """Whether a text is the id of an entity.

    >>> is_entity_id("Q42"), is_entity_id("Q42 OR 1")
    (True, False)
    """
    return _ID.fullmatch(text) is not None


class Explorer:
    """The snapshots of a home, ready to be asked by several threads at once; to be closed.

    Attributes:
        home: The folder.
        snapshots: Oldest first.
        indexes: Their derived files.
    """

    def __init__(self, home: Path, *, told: Told = lambda _said: None) -> None:
        """Make what is missing of the derived files, and open all.

        Args:
            home: Folder with snapshots.
            told: Told of each derived file that is made.

        Raises:
            StoreError: if there is no snapshot, or another process is making the derived files.
        """
        self.home, self.snapshots = home, tuple(list_snapshots(home))
        if not self.snapshots:
            raise StoreError(f"{home} has no snapshot. Load one: kgedit load-dump PATH --date DATE")
        self.indexes: Indexes = make_indexes(home, self.snapshots, told=told)
        self._connection = open_engine(home / "explore" / f".spill-{os.getpid()}", memory=_MEMORY)
        self._connection.execute("SET parquet_metadata_cache = true")
        for name in self.indexes.terms.files:
            self.run(f"CREATE VIEW {name} AS FROM {literal(self.indexes.terms.file(name))}")

    def close(self) -> None:
        """Let go of memory and files."""
        self._connection.close()

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, dict(parameters or {}))

    def table(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """The result of a query."""
        with self._connection.cursor() as cursor:
            found: pa.Table = cursor.sql(query, params=dict(parameters or {})).to_arrow_table()
        return found

    def snapshot(self, date: int) -> Snapshot:
        """The snapshot of a day number.

        Raises:
            StoreError: with the dates there are, if none is.
        """
        found = next((one for one in self.snapshots if one.date == date), None)
        if found is None:
            loaded = ", ".join(one.name for one in self.snapshots)
            raise StoreError(f"No snapshot of {date} is loaded (loaded: {loaded}).")
        return found

    def terms(self, ids: Sequence[str]) -> dict[str, ExplorerTerm]:
        """What is known of some entities; those that no snapshot describes are left out."""
        asked = sorted({one for one in ids if is_entity_id(one)})
        if not asked:
            return {}
        # Constants, which ids are safe as, let DuckDB skip the row groups without any of them.
        listed = ", ".join(f"'{one}'" for one in asked)
        rows = self.table(f"SELECT * FROM term WHERE id IN ({listed})").to_pylist()  # noqa: S608 - ids, checked
        return {row["id"]: ExplorerTerm(**row | {"aliases": tuple(row["aliases"] or ())}) for row in rows}
