"""The derived files of `kgedit explore` as SQL over the store: names, rows of entities, changes between neighbours.

Each file is sorted by its lookup key in small row groups, so that a lookup reads a few thousand rows instead of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot

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


def make_places(snapshot: Snapshot) -> tuple[str, ...]:
    """Statements that create table ``place``: the rows of each entity in the files of a snapshot, by id.

    Columns id, entity_row (null for a subject without a row), and half-open ranges of rows, null if empty:
    claims_first, claims_until, facts_first, facts_until. The claims of an entity are consecutive, and so are its facts.
    """
    entities = literal(snapshot.entities)

    def ranges(name: str, path: Path) -> str:
        return f"""(
            SELECT subject AS id, min(file_row_number) AS {name}_first, max(file_row_number) + 1 AS {name}_until
            FROM read_parquet({literal(path)}, file_row_number = true) GROUP BY subject)
        """  # noqa: S608 - paths through literal()

    return (
        f"""
        CREATE TABLE place AS
        SELECT id, entity_row, claims_first, claims_until, facts_first, facts_until
        FROM (SELECT id, max(file_row_number) AS entity_row FROM read_parquet({entities}, file_row_number = true)
              GROUP BY id)
        FULL JOIN {ranges("claims", snapshot.claims)} USING (id)
        LEFT JOIN {ranges("facts", snapshot.facts)} USING (id)
        ORDER BY id
        """,  # noqa: S608 - paths through literal()
    )


def make_terms(snapshots: Sequence[Snapshot]) -> tuple[str, ...]:
    """Statements that create tables ``term``, ``name`` and ``word``.

    ``term``: each entity as described by the newest snapshot that contains it. Columns id, kind, label, description,
    aliases, date (day number of that snapshot), merged_into (in the newest snapshot) and popularity (number of facts of
    the newest snapshot with it as subject or object). ``name``: labels and aliases by their words (key); a name that is
    both is a label. ``word``: the words of all names.
    """
    newest = snapshots[-1]
    described = [
        f"SELECT id, kind, label, description, aliases, {one.date} AS date FROM {literal(one.entities)} "  # noqa: S608 - paths through literal()
        "WHERE redirect_target IS NULL"
        for one in reversed(snapshots)
    ]
    facts = literal(newest.facts)
    return (
        f"CREATE TABLE entity AS {described[0]}",
        *(f"INSERT INTO entity SELECT * FROM ({older}) o ANTI JOIN entity USING (id)" for older in described[1:]),  # noqa: S608 - our own names
        f"""
        CREATE TABLE popular AS
        SELECT id, count(*) AS popularity FROM (
            SELECT subject AS id FROM {facts} UNION ALL SELECT object FROM {facts} WHERE kind IN ('item', 'property'))
        GROUP BY id
        """,  # noqa: S608 - paths through literal()
        f"""
        CREATE TABLE term AS
        SELECT e.*, r.redirect_target AS merged_into, coalesce(popularity, 0)::INTEGER AS popularity
        FROM entity e LEFT JOIN popular USING (id)
        LEFT JOIN (SELECT id, redirect_target FROM {literal(newest.entities)} WHERE redirect_target IS NOT NULL) r
            USING (id)
        ORDER BY id
        """,  # noqa: S608 - paths through literal()
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
"""  # noqa: S608 - our own names

_WORDS = """
    CREATE TABLE word AS
    SELECT DISTINCT unnest(string_split(key, ' ')) AS word, id, popularity FROM name ORDER BY word, popularity DESC, id
"""


def make_changes(older: Snapshot, newer: Snapshot) -> tuple[str, ...]:
    """Statements that create tables ``change`` and ``presence``: differences between two consecutive snapshots.

    ``change``: each subject and property whose current objects differ, with all objects of both sides (old_objects,
    new_objects, sorted), and their labels (a literal's text) and times in the same order. Merged objects keep their old
    id here; queries over two dates compare them under the newer id. ``presence``: entities that only one of the two
    snapshots contains (id, in_old, in_new).
    """
    old_facts, new_facts = literal(older.facts), literal(newer.facts)
    old, new = (f"(SELECT * FROM {literal(one.entities)} WHERE redirect_target IS NULL)" for one in (older, newer))  # noqa: S608 - paths through literal()
    return (
        f"""
        CREATE TABLE presence AS
        SELECT coalesce(o.id, n.id) AS id, o.id IS NOT NULL AS in_old, n.id IS NOT NULL AS in_new
        FROM {old} o FULL JOIN {new} n USING (id) WHERE o.id IS NULL OR n.id IS NULL ORDER BY id
        """,  # noqa: S608 - paths through literal()
        # Entities with one digest have the same facts (kgedit.store.digests).
        f"""
        CREATE TABLE touched AS
        SELECT id FROM (SELECT id, digest FROM {old} o UNION ALL SELECT id, digest FROM {new} n)
        GROUP BY id HAVING count(*) = 1 OR min(digest) <> max(digest)
        """,  # noqa: S608 - paths through literal()
        f"""
        CREATE TABLE side AS
        SELECT *, false AS is_new FROM {old_facts} WHERE subject IN (FROM touched)
        UNION ALL SELECT *, true FROM {new_facts} WHERE subject IN (FROM touched)
        """,  # noqa: S608 - paths through literal()
        _DIFFERENT,
        f"""
        CREATE TABLE named AS
        WITH asked AS (
            SELECT subject AS id FROM different UNION SELECT property FROM different
            UNION SELECT object FROM side SEMI JOIN different USING (subject, property) WHERE kind <> 'value'
            UNION SELECT unit FROM side SEMI JOIN different USING (subject, property) WHERE unit IS NOT NULL)
        SELECT id, coalesce(n.label, o.label) AS label
        FROM asked LEFT JOIN {old} o USING (id) LEFT JOIN {new} n USING (id)
        """,  # noqa: S608 - paths through literal()
        f"""
        CREATE TABLE popular AS
        SELECT id, count(*) AS popularity FROM (
            SELECT subject AS id FROM {new_facts} UNION ALL SELECT object FROM {new_facts} WHERE kind = 'item')
        WHERE id IN (SELECT subject FROM different) GROUP BY id
        """,  # noqa: S608 - paths through literal()
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
