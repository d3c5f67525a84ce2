"""From changed edges to cases: one ordered list of filters, every drop counted by its reason.

The order and the thresholds are WikiBigEdit's (section 3, step 2), by ids instead of labels; beyond the paper,
redirected subjects, Wikimedia's own pages and likely duplicates are dropped as well.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.graph.changes import changed_edges
from kgedit.graph.connection import Graph
from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import INSTANCE_OF, SUBCLASS_OF, WIKIMEDIA_PAGE_CLASSES

MAX_LABEL_WORDS = 5

_MEMORY = "320MB"
"""What DuckDB takes for an export; the rest spills to disk."""

FILTERS: tuple[tuple[str, str], ...] = (
    ("subject is no item", "subject[1] <> 'Q'"),
    ("subject gone or redirected in the newer snapshot", "NOT subject_in_new"),
    ("subject not in the older snapshot", "NOT subject_in_old"),
    ("not entity to entity", "NOT item_valued"),
    ("value removed, none added", "len(added) = 0"),
    ("circular: subject is the object", "list_contains(new_objects, subject)"),
    ("no label in the languages asked for", "subject_label IS NULL OR object_unlabelled"),
    ("no letter of the Roman script in a label", "NOT is_roman(subject_label) OR object_not_roman"),
    ("label of one character", "length(subject_label) = 1 OR object_one_character"),
    ("label of more than five words", f"words(subject_label) > {MAX_LABEL_WORDS} OR object_too_long"),
    ("several current objects", "len(new_objects) > 1"),
    ("Wikimedia page: list, category, template, disambiguation, portal, module", "subject_is_page OR object_is_page"),
    ("old and new object bear one label: likely duplicate", "object_label_unchanged"),
    ("no label of the old object", "old_unlabelled"),
)
"""Reason and condition, in order: a change is dropped for the first one that holds."""

_CHANGED = [
    "subject",
    "property",
    "old_objects",
    "new_objects",
    "item_valued",
    "subject_in_old",
    "subject_in_new",
]
"""What the filters need of cypher/read/changed_edges; labels come from the two snapshots themselves."""


def open_workspace(old: Snapshot, new: Snapshot, *, spill: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with both snapshots: views old_facts, new_facts, old_entities and new_entities.

    Args:
        old: The older snapshot.
        new: The newer one.
        spill: Folder for what does not fit in memory; it goes with the connection.
    """
    connection = open_engine(spill, memory=_MEMORY)
    for name, snapshot in (("old", old), ("new", new)):
        connection.execute(f"CREATE VIEW {name}_facts AS SELECT * FROM {literal(snapshot.facts)}")  # noqa: S608 - paths through literal()
        connection.execute(
            f"CREATE VIEW {name}_entities AS SELECT * FROM {literal(snapshot.entities)} WHERE redirect_target IS NULL"  # noqa: S608 - paths through literal()
        )
    connection.execute(
        f"CREATE VIEW new_redirects AS SELECT id, redirect_target AS target FROM {literal(new.entities)} "  # noqa: S608 - paths through literal()
        "WHERE redirect_target IS NOT NULL"
    )
    connection.execute(r"CREATE MACRO is_roman(label) AS regexp_matches(label, '\p{Latin}')")
    connection.execute(r"CREATE MACRO words(label) AS len(regexp_split_to_array(trim(label), '\s+'))")
    connection.execute(r"CREATE MACRO name_of(label) AS lower(regexp_replace(trim(label), '\s+', ' ', 'g'))")
    return connection


def read_table(workspace: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """A query's result as one Arrow table."""
    found: pa.Table = workspace.sql(query).to_arrow_table()
    return found


def find_changes(graph: Graph, *, old: int, new: int) -> pa.Table:
    """The changed edges between two snapshots that the graph holds.

    Args:
        graph: Where to look.
        old: Day number of the older snapshot.
        new: Day number of the newer one.
    """
    return changed_edges(graph, older=old, newer=new).select(_CHANGED)


def judge_changes(workspace: duckdb.DuckDBPyConnection, changed: pa.Table) -> pa.Table:
    """Judge changed edges: tables ``changed`` and ``judged``, the latter with ``reason``, null for what stays.

    Args:
        workspace: From open_workspace.
        changed: From find_changes.

    Returns:
        The funnel: columns reason and count, in the order of FILTERS.
    """
    workspace.register("changed_rows", changed)
    workspace.execute(
        """
        CREATE TABLE changed AS
        SELECT *, list_filter(new_objects, lambda x: NOT list_contains(old_objects, x)) AS added FROM changed_rows
        """
    )
    workspace.unregister("changed_rows")
    _find_wikimedia_pages(workspace)
    _describe_objects(workspace)
    reasons = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in FILTERS)
    workspace.execute(
        f"""
        CREATE TABLE judged AS
        WITH labelled AS (
            SELECT changed.*, s.label AS subject_label, statement_ids, added_objects.* EXCLUDE (subject, property),
                   old_unlabelled, coalesce(old_answers, []) AS old_answers,
                   changed.subject IN (FROM wikimedia_pages) AS subject_is_page,
                   list_has_any(list_transform(coalesce(old_answers, []), lambda x: name_of(x)),
                                list_transform(added_labels, lambda x: name_of(x))) AS object_label_unchanged
            FROM changed LEFT JOIN new_entities s ON s.id = changed.subject
            LEFT JOIN added_objects USING (subject, property)
            LEFT JOIN gone_objects USING (subject, property)
            LEFT JOIN new_statements USING (subject, property)
        )
        SELECT *, CASE {reasons} END AS reason FROM labelled
        """  # noqa: S608 - our own names and numbers
    )
    counts = dict(workspace.execute("SELECT reason, count(*) FROM judged GROUP BY reason").fetchall())
    names = [reason for reason, _ in FILTERS]
    return pa.table({"reason": names, "count": pa.array([counts.get(name, 0) for name in names], pa.int64())})


def _find_wikimedia_pages(workspace: duckdb.DuckDBPyConnection) -> None:
    """Table ``wikimedia_pages``: changed subjects and objects that are instances of a page class or one below it."""
    roots = ", ".join(f"('{name}')" for name in WIKIMEDIA_PAGE_CLASSES)
    workspace.execute(
        f"""
        CREATE TABLE wikimedia_pages AS
        WITH RECURSIVE page_class(id) AS (
            VALUES {roots}
            UNION
            SELECT f.subject FROM new_facts f JOIN page_class ON f.object = page_class.id
            WHERE f.property = '{SUBCLASS_OF}'
        ), candidate AS (SELECT subject FROM changed UNION SELECT unnest(added) FROM changed)
        SELECT DISTINCT subject FROM new_facts SEMI JOIN candidate USING (subject)
        WHERE property = '{INSTANCE_OF}' AND object IN (FROM page_class)
        """  # noqa: S608 - our own names and numbers
    )


def _describe_objects(workspace: duckdb.DuckDBPyConnection) -> None:
    """Tables ``added_objects``, ``gone_objects`` and ``new_statements``, by subject and property."""
    workspace.execute(
        f"""
        CREATE TABLE added_objects AS
        SELECT c.subject, c.property, bool_or(e.label IS NULL) AS object_unlabelled,
               bool_or(NOT is_roman(e.label)) AS object_not_roman, bool_or(length(e.label) = 1) AS object_one_character,
               bool_or(words(e.label) > {MAX_LABEL_WORDS}) AS object_too_long,
               bool_or(c.object IN (FROM wikimedia_pages)) AS object_is_page,
               list(e.label ORDER BY c.object) AS added_labels
        FROM (SELECT subject, property, unnest(added) AS object FROM changed) c
        LEFT JOIN new_entities e ON e.id = c.object GROUP BY ALL
        """  # noqa: S608 - our own names and numbers
    )
    workspace.execute(
        """
        CREATE TABLE gone_objects AS
        SELECT c.subject, c.property, bool_or(coalesce(o.label, n.label) IS NULL) AS old_unlabelled,
               list(coalesce(o.label, n.label) ORDER BY place) AS old_answers
        FROM (SELECT subject, property, unnest(old_objects) AS object,
                     generate_subscripts(old_objects, 1) AS place FROM changed) c
        LEFT JOIN old_entities o ON o.id = c.object LEFT JOIN new_entities n ON n.id = c.object GROUP BY ALL
        """
    )
    workspace.execute(
        """
        CREATE TABLE new_statements AS
        SELECT subject, property, list(statement_id ORDER BY object, statement_id) AS statement_ids
        FROM (SELECT subject, property, coalesce(target, object) AS object, statement_id
              FROM new_facts SEMI JOIN changed USING (subject, property) LEFT JOIN new_redirects ON id = object)
        GROUP BY ALL
        """
    )


def keep_cases(workspace: duckdb.DuckDBPyConnection) -> None:
    """Table ``facts``: one row per change that no filter dropped, with labels, aliases and its case id."""
    workspace.execute(
        """
        CREATE TABLE facts AS
        SELECT subject || ':' || property || ':' || added[1] AS case_id,
               CASE WHEN len(old_objects) = 0 THEN 'new' ELSE 'update' END AS tag,
               subject, subject_label, property, coalesce(p.label, property) AS property_label,
               added[1] AS object, o.label AS object_label, coalesce(o.aliases, []) AS object_aliases,
               statement_ids, old_objects, old_answers,
               coalesce(old_subject.label <> subject_label, false)
                   OR coalesce(old_object.label <> o.label, false) AS label_changed
        FROM judged
        JOIN new_entities o ON o.id = added[1]
        LEFT JOIN new_entities p ON p.id = property
        LEFT JOIN old_entities old_subject ON old_subject.id = subject
        LEFT JOIN old_entities old_object ON old_object.id = added[1]
        WHERE reason IS NULL
        """
    )
