"""The live view of what changed: `kgedit explore`.

`Explorer` is one DuckDB connection over the snapshots of a home and their derived files (`indexes`); each query uses
its own cursor. `differences` and `history` query it, `exports` makes timesteps of selected changes, and `server` serves
the page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.pages.explorer.indexes import Announce, Indexes, make_indexes, words_of
from kgedit.store.engine import literal, open_cursor, open_engine
from kgedit.store.snapshots import Snapshot, list_snapshots

_MEMORY = "2GB"
_ID = re.compile(r"[QPL][1-9]\d*")


@dataclass(frozen=True, slots=True)
class ExplorerTerm:
    """An item or a property as described by the newest snapshot that contains it.

    Attributes:
        id: QID or PID.
        kind: "item" or "property".
        label: Label; None if it has none in the loaded languages.
        description: Description; None if it has none in the loaded languages.
        aliases: Further names.
        date: Day number of the snapshot.
        merged_into: Target of its redirect in the newest snapshot; None without a redirect.
        popularity: Number of facts of the newest snapshot with it as subject or object.
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
    """Whether a text is an entity id.

    >>> is_entity_id("Q42"), is_entity_id("Q42 OR 1")
    (True, False)
    """
    return _ID.fullmatch(text) is not None


class Explorer:
    """Queries the snapshots of a home. Thread-safe; close it after use.

    Attributes:
        home: Home folder.
        snapshots: Snapshots, oldest first.
        indexes: Their derived files.
    """

    def __init__(self, home: Path, *, announce: Announce = lambda _message: None) -> None:
        """Create missing derived files and open all of them.

        Args:
            home: Home folder.
            announce: Called with a message for each derived file that is created.

        Raises:
            StoreError: if there is no snapshot, or another process is creating the derived files.
        """
        self.home, self.snapshots = home, tuple(list_snapshots(home))
        if not self.snapshots:
            raise StoreError(f"{home} has no snapshot. Load one: kgedit load-dump PATH --date DATE")
        self.indexes: Indexes = make_indexes(home, self.snapshots, announce=announce)
        self._open = ExitStack()
        engine = open_engine(home / "explore" / f".spill-{os.getpid()}", memory=_MEMORY)
        self._connection = self._open.enter_context(engine)
        self._connection.execute("SET parquet_metadata_cache = true")
        self._open.callback(self._connection.execute, "RESET parquet_metadata_cache")
        for name in self.indexes.terms.files:
            self.run(f"CREATE VIEW {name} AS FROM {literal(self.indexes.terms.file(name))}")

    def close(self) -> None:
        """Close the connection and release its files."""
        self._open.close()

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement."""
        with open_cursor(self._connection) as cursor:
            cursor.execute(statement, dict(parameters or {}))

    def table(self, query: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Run a query and return its result."""
        with open_cursor(self._connection) as cursor:
            found: pa.Table = cursor.sql(query, params=dict(parameters or {})).to_arrow_table()
        return found

    def snapshot(self, date: int) -> Snapshot:
        """The snapshot of a day number.

        Raises:
            StoreError: if it is not loaded; the message lists the loaded dates.
        """
        found = next((one for one in self.snapshots if one.date == date), None)
        if found is None:
            loaded = ", ".join(one.name for one in self.snapshots)
            raise StoreError(f"No snapshot of {date} is loaded (loaded: {loaded}).")
        return found

    def terms(self, ids: Sequence[str]) -> dict[str, ExplorerTerm]:
        """Descriptions of entities by id; entities that no snapshot contains are left out."""
        asked = sorted({one for one in ids if is_entity_id(one)})
        if not asked:
            return {}
        # Ids are safe to inline, and constants let DuckDB skip row groups.
        listed = ", ".join(f"'{one}'" for one in asked)
        rows = self.table(f"SELECT * FROM term WHERE id IN ({listed})").to_pylist()
        return {row["id"]: ExplorerTerm(**row | {"aliases": tuple(row["aliases"] or ())}) for row in rows}


_LAST = chr(0x10FFFF)
"""Sorts after every letter: texts with a prefix are those between the prefix and the prefix followed by this."""

_MOST_WORDS = 8  # each word is a join


@dataclass(frozen=True, slots=True)
class Found:
    """An entity that matches the text.

    Attributes:
        term: The entity.
        match: "id", "label" or "alias" for a whole name, "start" for the prefix of a name, else "words".
    """

    term: ExplorerTerm
    match: str


_MATCHES = ("id", "label", "alias", "start", "words")


def search(explorer: Explorer, text: str, *, limit: int = 20) -> list[Found]:
    """Search entities by name, best match first: whole names, names with the prefix, names with such words.

    Ignores case, accents and punctuation. Equal matches are ordered by number of facts in the newest snapshot.

    Args:
        explorer: The snapshots.
        text: Text to search for.
        limit: Maximum number of results.
    """
    words = explorer.table(f"SELECT unnest({words_of('$text')}) AS word", {"text": text})["word"].to_pylist()
    id_typed = text.strip().upper()
    ranks: dict[str, int] = {id_typed: 0} if is_entity_id(id_typed) else {}
    if words:
        rows = explorer.table(*_query(words[:_MOST_WORDS], limit)).to_pylist()
        ranks = {row["id"]: row["tier"] for row in rows} | ranks
    terms = explorer.terms(list(ranks))
    order = sorted(terms.values(), key=lambda term: (ranks[term.id], -term.popularity, term.id))
    return [Found(term, _MATCHES[ranks[term.id]]) for term in order[:limit]]


def _query(words: list[str], limit: int) -> tuple[str, dict[str, str | int]]:
    key = " ".join(words)
    parameters: dict[str, str | int] = {"key": key, "after_key": key + _LAST, "limit": limit}
    ranges = []
    for number, word in enumerate(dict.fromkeys(words)):
        parameters |= {f"word_{number}": word, f"after_{number}": word + _LAST}
        ranges.append(f"SELECT id, popularity FROM word WHERE word >= $word_{number} AND word < $after_{number}")
    all_of = " INTERSECT ".join(ranges)
    return (
        f"""
        WITH whole AS (
            SELECT id, min(CASE WHEN key <> $key THEN 3 WHEN is_alias THEN 2 ELSE 1 END) AS tier,
                   any_value(popularity) AS popularity
            FROM name WHERE key >= $key AND key < $after_key GROUP BY id ORDER BY tier, popularity DESC, id LIMIT $limit
        ), with_words AS (
            SELECT DISTINCT id, popularity FROM ({all_of}) ORDER BY popularity DESC, id LIMIT $limit
        )
        SELECT id, min(tier) AS tier, any_value(popularity) AS popularity
        FROM (FROM whole UNION ALL SELECT id, 4, popularity FROM with_words)
        GROUP BY id ORDER BY tier, popularity DESC, id LIMIT $limit
        """,
        parameters,
    )
