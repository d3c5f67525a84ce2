"""Small files derived from the snapshots, in ``$KGEDIT_HOME/explore``, created once and then reused.

There is a folder for each snapshot, each pair of consecutive snapshots, each other pair that was viewed, and one for
all snapshots. A folder is renamed when it is complete and records its snapshots: reloading a snapshot rebuilds its
folders. All of them can be removed at any time. Each file is sorted by its lookup key in small row groups, so that a
lookup reads a few thousand rows instead of all.

Changes between any two snapshots are composed of those between consecutive snapshots, which have all objects of both
sides. Over several snapshots, the older side is that of the first change of a subject and property and the newer side
that of the last one. Values that returned to their former state are not a change, and merged objects are compared under
their id in the newer snapshot, as in cypher/read/changed_edges.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kgedit.store.digests import changed_entities
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
        made = _make_window([one.file("change") for one in steps], [one.file("presence") for one in steps], of[-1])
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
        Index(folder / "names" / "all", all_of, _make_terms(snapshots), ("term", "name", "word")),
        tuple(Index(folder / "places" / str(one.date), (one,), _make_places(one), ("place",)) for one in snapshots),
        tuple(
            Index(
                folder / "changes" / f"{old.date}_{new.date}",
                (old, new),
                _make_changes(old, new),
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


WORD = "[\\pL\\pN]+"
"""Regular expression of a word."""


def words_of(text: str) -> str:
    """SQL for the words of a text, without case and accents; applied to both names and search texts.

    >>> import duckdb
    >>> duckdb.sql("SELECT " + words_of("'Åse-Marie  2'")).fetchone()
    (['ase', 'marie', '2'],)
    """
    return f"regexp_extract_all(strip_accents(lower({text})), '{WORD}')"


def key_of(text: str) -> str:
    """SQL for a name's words in a row."""
    return f"array_to_string({words_of(text)}, ' ')"


def _make_places(snapshot: Snapshot) -> tuple[str, ...]:
    """Statements that create table ``place``: the rows of each entity in the files of a snapshot, by id.

    Columns id, entity_row (null for a subject without a row), and half-open ranges of rows, null if empty:
    claims_first, claims_until, facts_first, facts_until. The claims of an entity are consecutive, and so are its facts.
    """
    entities = literal(snapshot.entities)

    def ranges(name: str, path: Path) -> str:
        return f"""(
            SELECT subject AS id, min(file_row_number) AS {name}_first, max(file_row_number) + 1 AS {name}_until
            FROM read_parquet({literal(path)}, file_row_number = true) GROUP BY subject)
        """

    return (
        f"""
        CREATE TABLE place AS
        SELECT id, entity_row, claims_first, claims_until, facts_first, facts_until
        FROM (SELECT id, max(file_row_number) AS entity_row FROM read_parquet({entities}, file_row_number = true)
              GROUP BY id)
        FULL JOIN {ranges("claims", snapshot.claims)} USING (id)
        LEFT JOIN {ranges("facts", snapshot.facts)} USING (id)
        ORDER BY id
        """,
    )


def _make_terms(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """Statements that create tables ``term``, ``name`` and ``word``.

    ``term``: each entity as described by the newest snapshot that contains it. Columns id, kind, label, description,
    aliases, date (day number of that snapshot), merged_into (in the newest snapshot) and popularity (number of facts of
    the newest snapshot with it as subject or object). ``name``: labels and aliases by their words (key); a name that is
    both is a label. ``word``: the words of all names.
    """
    newest = snapshots[-1]
    described = [
        f"SELECT id, kind, label, description, aliases, {one.date} AS date FROM {literal(one.entities)} "
        "WHERE redirect_target IS NULL"
        for one in reversed(snapshots)
    ]
    facts = literal(newest.facts)
    return (
        f"CREATE TABLE entity AS {described[0]}",
        *(f"INSERT INTO entity SELECT * FROM ({older}) o ANTI JOIN entity USING (id)" for older in described[1:]),
        f"""
        CREATE TABLE popular AS
        SELECT id, count(*) AS popularity FROM (
            SELECT subject AS id FROM {facts} UNION ALL SELECT object FROM {facts} WHERE kind IN ('item', 'property'))
        GROUP BY id
        """,
        f"""
        CREATE TABLE term AS
        SELECT e.*, r.redirect_target AS merged_into, coalesce(popularity, 0)::INTEGER AS popularity
        FROM entity e LEFT JOIN popular USING (id)
        LEFT JOIN (SELECT id, redirect_target FROM {literal(newest.entities)} WHERE redirect_target IS NOT NULL) r
            USING (id)
        ORDER BY id
        """,
        _NAMES,
        _WORDS,
    )


_NAMES = f"""
    CREATE TABLE name AS
    SELECT DISTINCT ON (key, id) key, id, popularity, is_alias
    FROM (SELECT {key_of("label")} AS key, id, popularity, false AS is_alias FROM term
          UNION ALL SELECT {key_of("alias")}, id, popularity, true
          FROM (SELECT id, popularity, unnest(aliases) AS alias FROM term))
    WHERE key <> '' ORDER BY key, id, is_alias
"""

_WORDS = """
    CREATE TABLE word AS
    SELECT DISTINCT unnest(string_split(key, ' ')) AS word, id, popularity FROM name ORDER BY word, popularity DESC, id
"""


def _make_changes(older: Snapshot, newer: Snapshot) -> tuple[str, ...]:
    """Statements that create tables ``change`` and ``presence``: differences between two consecutive snapshots.

    ``change``: each subject and property whose current objects differ, with all objects of both sides (old_objects,
    new_objects, sorted), and their labels (a literal's text) and times in the same order. Merged objects keep their old
    id here; queries over two dates compare them under the newer id. ``presence``: entities that only one of the two
    snapshots contains (id, in_old, in_new).
    """
    old_facts, new_facts = literal(older.facts), literal(newer.facts)
    old, new = (f"(SELECT * FROM {literal(one.entities)} WHERE redirect_target IS NULL)" for one in (older, newer))
    return (
        f"""
        CREATE TABLE presence AS
        SELECT coalesce(o.id, n.id) AS id, o.id IS NOT NULL AS in_old, n.id IS NOT NULL AS in_new
        FROM {old} o FULL JOIN {new} n USING (id) WHERE o.id IS NULL OR n.id IS NULL ORDER BY id
        """,
        f"CREATE TABLE touched AS SELECT id FROM ({changed_entities(old, new)})",
        f"""
        CREATE TABLE side AS
        SELECT *, false AS is_new FROM {old_facts} WHERE subject IN (FROM touched)
        UNION ALL SELECT *, true FROM {new_facts} WHERE subject IN (FROM touched)
        """,
        _DIFFERENT,
        f"""
        CREATE TABLE named AS
        WITH asked AS (
            SELECT subject AS id FROM different UNION SELECT property FROM different
            UNION SELECT object FROM side SEMI JOIN different USING (subject, property) WHERE kind <> 'value'
            UNION SELECT unit FROM side SEMI JOIN different USING (subject, property) WHERE unit IS NOT NULL)
        SELECT id, coalesce(n.label, o.label) AS label
        FROM asked LEFT JOIN {old} o USING (id) LEFT JOIN {new} n USING (id)
        """,
        f"""
        CREATE TABLE popular AS
        SELECT id, count(*) AS popularity FROM (
            SELECT subject AS id FROM {new_facts} UNION ALL SELECT object FROM {new_facts} WHERE kind = 'item')
        WHERE id IN (SELECT subject FROM different) GROUP BY id
        """,
        _SAID,
        _CHANGE,
    )


_DIFFERENT = """
    CREATE TABLE different AS
    SELECT subject, property, list(object ORDER BY object) FILTER (NOT is_new) AS old_objects,
           list(object ORDER BY object) FILTER (is_new) AS new_objects
    FROM side GROUP BY subject, property HAVING old_objects IS DISTINCT FROM new_objects
"""

_CHANGE = """
    CREATE TABLE change AS
    SELECT d.subject, s.label AS subject_label, d.property, p.label AS property_label,
           coalesce(d.old_objects, []) AS old_objects, coalesce(old_labels, []) AS old_labels,
           coalesce(old_times, []) AS old_times, coalesce(d.new_objects, []) AS new_objects,
           coalesce(new_labels, []) AS new_labels, coalesce(new_times, []) AS new_times,
           s.in_old, s.in_new, coalesce(popularity, 0)::INTEGER AS popularity
    FROM different d JOIN said USING (subject, property)
    JOIN (SELECT named.*, coalesce(in_old, true) AS in_old, coalesce(in_new, true) AS in_new
          FROM named LEFT JOIN presence USING (id)) s ON s.id = d.subject
    JOIN named p ON p.id = d.property LEFT JOIN popular ON popular.id = d.subject
    ORDER BY d.subject, d.property
"""

_SAID = """
    CREATE TABLE said AS
    WITH worded AS (
        SELECT f.subject, f.property, f.object, f.is_new, f.kind,
               coalesce(start_time, point_time) AS time,
               CASE WHEN f.kind = 'value'
                   THEN regexp_replace(f.value, '[\\r\\n]+', ' ', 'g') || coalesce(' ' || coalesce(u.label, f.unit), '')
                   ELSE o.label END AS label
        FROM side f SEMI JOIN different USING (subject, property)
        LEFT JOIN named o ON o.id = f.object LEFT JOIN named u ON u.id = f.unit
    )
    SELECT subject, property, list(label ORDER BY object) FILTER (NOT is_new) AS old_labels,
           list(label ORDER BY object) FILTER (is_new) AS new_labels,
           list(time ORDER BY object) FILTER (NOT is_new) AS old_times,
           list(time ORDER BY object) FILTER (is_new) AS new_times
    FROM worded GROUP BY subject, property
"""


_ACT = """
    CASE WHEN len(old_objects) = 0 THEN 'first' WHEN len(new_objects) = 0 THEN 'none'
         WHEN list_has_all(old_objects, new_objects) THEN 'removed'
         WHEN list_has_all(new_objects, old_objects) THEN 'added' ELSE 'replaced' END
"""

_SUBJECT = """
    CASE WHEN in_old AND in_new THEN 'in both' WHEN in_new THEN 'new' WHEN in_old THEN 'gone' ELSE 'in neither' END
"""
"""SQL: whether each snapshot contains the subject."""

_ADDED_TIMES = (
    "list_filter(new_times, lambda time, i: time IS NOT NULL AND NOT list_contains(old_objects, new_objects[i]))"
)


def _make_window(changes: Sequence[Path], presences: Sequence[Path], newer: Snapshot) -> tuple[str, ...]:
    """Statements that create table ``differences``: the changes of a window.

    Columns subject, property and their labels; old_objects, new_objects (sorted) with labels and times in the same
    order; in_old, in_new (whether each snapshot contains the subject), popularity; and columns for filters and search:
    act (replaced, added, first, removed or none), presence, content, year, words.

    Args:
        changes: Files ``change`` of all consecutive pairs in the window, oldest first.
        presences: Files ``presence`` of the same pairs.
        newer: The newer snapshot.
    """
    entities = literal(newer.entities)
    redirects = f"SELECT id, redirect_target AS target FROM {entities} WHERE redirect_target IS NOT NULL"
    rows = _described(_under_newer_ids(_composed(changes, presences), redirects))
    return (f"CREATE TABLE differences AS SELECT * FROM ({rows}) ORDER BY subject, property",)


def _composed(changes: Sequence[Path], presences: Sequence[Path]) -> str:
    """SQL: the older side of the first change of each subject and property, and the newer side of the last one."""
    if len(changes) == 1:
        return f"SELECT * FROM {literal(changes[0])}"
    steps = " UNION ALL ".join(f"SELECT *, {k} AS step FROM {literal(file)}" for k, file in enumerate(changes))
    seen = " UNION ALL ".join(f"SELECT *, {k} AS step FROM {literal(file)}" for k, file in enumerate(presences))
    olds, news = ("objects", "labels", "times"), ("objects", "labels", "times")
    before = ", ".join(f"old_{name} := old_{name}" for name in olds)
    after = ", ".join(f"new_{name} := new_{name}" for name in news)
    # Nearly all change once only; lists in an aggregate are dear.
    return f"""
        WITH step AS MATERIALIZED ({steps}), several AS MATERIALIZED (
            SELECT subject, property FROM step GROUP BY subject, property HAVING count(*) > 1
        ), folded AS (
            SELECT subject, property, arg_min(struct_pack({before}, in_old := in_old), step) AS before,
                   arg_max(struct_pack({after}, subject_label := subject_label, property_label := property_label,
                                       in_new := in_new, popularity := popularity), step) AS after
            FROM step SEMI JOIN several USING (subject, property) GROUP BY subject, property
        ), once AS (
            SELECT * EXCLUDE (step) FROM step ANTI JOIN several USING (subject, property)
            UNION ALL BY NAME SELECT subject, property, unnest(before), unnest(after) FROM folded
        )
        SELECT once.* REPLACE (coalesce(p.in_old, once.in_old) AS in_old, coalesce(p.in_new, once.in_new) AS in_new)
        FROM once LEFT JOIN (
            SELECT id, arg_min(in_old, step) AS in_old, arg_max(in_new, step) AS in_new FROM ({seen}) GROUP BY id
        ) p ON p.id = subject
    """


def _under_newer_ids(changes: str, redirects: str) -> str:
    """SQL: the changes with merged objects under the ids of their redirects' targets."""

    def followed(side: str) -> str:
        return f"""
            SELECT subject, property, list(object ORDER BY object) AS {side}_objects,
                   list(label ORDER BY object) AS {side}_labels, list(time ORDER BY object) AS {side}_times
            FROM (SELECT subject, property, coalesce(target, object) AS object, any_value(label) AS label,
                         max(time) AS time
                  FROM (SELECT subject, property, unnest({side}_objects) AS object, unnest({side}_labels) AS label,
                               unnest({side}_times) AS time
                        FROM change SEMI JOIN merged USING (subject, property))
                  LEFT JOIN redirect ON id = object GROUP BY ALL)
            GROUP BY subject, property
        """

    return f"""
        WITH change AS MATERIALIZED ({changes}), redirect AS MATERIALIZED ({redirects}), merged AS MATERIALIZED (
            SELECT DISTINCT subject, property
            FROM (SELECT subject, property, unnest(list_concat(old_objects, new_objects)) AS id FROM change)
            SEMI JOIN redirect USING (id)
        )
        SELECT * FROM change ANTI JOIN merged USING (subject, property)
        UNION ALL BY NAME
        SELECT c.* REPLACE (
            coalesce(o.old_objects, []) AS old_objects, coalesce(o.old_labels, []) AS old_labels,
            coalesce(o.old_times, []) AS old_times, coalesce(n.new_objects, []) AS new_objects,
            coalesce(n.new_labels, []) AS new_labels, coalesce(n.new_times, []) AS new_times)
        FROM change c SEMI JOIN merged USING (subject, property)
        LEFT JOIN ({followed("old")}) o USING (subject, property)
        LEFT JOIN ({followed("new")}) n USING (subject, property)
    """


def _described(changes: str) -> str:
    """SQL: the changes with the columns for filters and search."""
    return f"""
        SELECT *, {_ACT} AS act, {_SUBJECT} AS presence,
               CASE WHEN len(list_filter(list_concat(old_objects, new_objects), lambda x: x[1] <> 'Q')) = 0
                   THEN 'items' ELSE 'text, number or date' END AS content,
               regexp_extract(list_max({_ADDED_TIMES}), '^-?\\d+') AS year,
               strip_accents(lower(concat_ws(chr(31), subject, subject_label, property, property_label,
                   array_to_string(old_labels, chr(31)), array_to_string(new_labels, chr(31)),
                   array_to_string(old_objects, chr(31)), array_to_string(new_objects, chr(31))))) AS words
        FROM ({changes}) WHERE old_objects <> new_objects
    """
