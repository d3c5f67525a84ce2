"""From changed edges to facts worth asking: one ordered list of filters, every drop counted by its reason.

The order and the thresholds are WikiBigEdit's (section 3, step 2), by ids instead of labels; what the paper leaves
open follows ../design: redirected subjects, Wikimedia's own pages and likely duplicates are dropped as well.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import INSTANCE_OF, WIKIMEDIA_PAGE_CLASSES

MAX_LABEL_WORDS = 5

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
    ("true only under a restrictive qualifier", "is_restricted"),
    ("list, category, template or disambiguation page", "subject IN wikimedia_pages OR object_is_page"),
    ("old and new object bear one label: likely duplicate", "object_label_unchanged"),
    ("no label of the old object", "old_unlabelled"),
)
"""Reason and condition, in order: a change is dropped for the first one that holds."""


def open_workspace(old: Snapshot, new: Snapshot) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the labels of both snapshots: views old_entities and new_entities."""
    connection = duckdb.connect()
    for name, snapshot in (("old", old), ("new", new)):
        connection.execute(f"CREATE VIEW {name}_entities AS SELECT * FROM '{snapshot.entities}'")
    connection.execute(r"CREATE MACRO is_roman(label) AS regexp_matches(label, '\p{Latin}')")
    connection.execute(r"CREATE MACRO words(label) AS len(regexp_split_to_array(trim(label), '\s+'))")
    connection.execute(
        f"CREATE TABLE wikimedia_pages AS SELECT DISTINCT subject FROM '{new.claims}' "
        f"WHERE property = '{INSTANCE_OF}' AND object IN {WIKIMEDIA_PAGE_CLASSES} AND rank <> 'deprecated'"
    )
    connection.execute(f"CREATE TABLE restricted AS SELECT statement_id FROM '{new.claims}' WHERE restricted")
    return connection


def read_table(workspace: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    """A query's result as one Arrow table."""
    found: pa.Table = workspace.sql(query).to_arrow_table()
    return found


def find_changes(graph: Graph, workspace: duckdb.DuckDBPyConnection, *, old: int, new: int) -> pa.Table:
    """Find changed edges and judge each: table ``judged`` with a column ``reason``, null for what stays.

    Args:
        graph: Holds both snapshots.
        workspace: From open_workspace.
        old: Day number of the older snapshot.
        new: Day number of the newer one.

    Returns:
        The funnel: columns reason and count, in the order of FILTERS.
    """
    changed = graph.table(read_query("changed_edges").text, {"from": old, "to": new})
    workspace.register("changed_rows", _typed(changed))
    workspace.execute(
        """
        CREATE TABLE changed AS
        SELECT *, list_filter(new_objects, lambda x: NOT list_contains(old_objects, x)) AS added FROM changed_rows
        """
    )
    workspace.unregister("changed_rows")
    reasons = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in FILTERS)
    workspace.execute(
        f"""
        CREATE TABLE judged AS
        WITH objects AS (
            SELECT c.subject, c.property, bool_or(e.label IS NULL) AS object_unlabelled,
                   bool_or(NOT is_roman(e.label)) AS object_not_roman,
                   bool_or(length(e.label) = 1) AS object_one_character,
                   bool_or(words(e.label) > {MAX_LABEL_WORDS}) AS object_too_long,
                   bool_or(c.object IN (SELECT subject FROM wikimedia_pages)) AS object_is_page,
                   list(e.label ORDER BY c.object) AS added_labels
            FROM (SELECT subject, property, unnest(added) AS object FROM changed) c
            LEFT JOIN new_entities e ON e.id = c.object GROUP BY ALL
        ), olds AS (
            SELECT c.subject, c.property, bool_or(coalesce(o.label, n.label) IS NULL) AS old_unlabelled,
                   list(coalesce(o.label, n.label) ORDER BY place) AS old_answers
            FROM (SELECT subject, property, unnest(old_objects) AS object,
                         generate_subscripts(old_objects, 1) AS place FROM changed) c
            LEFT JOIN old_entities o ON o.id = c.object LEFT JOIN new_entities n ON n.id = c.object GROUP BY ALL
        ), labelled AS (
            SELECT changed.*, s.label AS subject_label,
                   EXISTS (FROM restricted WHERE list_contains(statement_ids, statement_id)) AS is_restricted,
                   objects.* EXCLUDE (subject, property), old_unlabelled,
                   coalesce(old_answers, []) AS old_answers,
                   list_has_any(coalesce(old_answers, []), added_labels) AS object_label_unchanged
            FROM changed LEFT JOIN new_entities s ON s.id = changed.subject
            LEFT JOIN objects ON objects.subject = changed.subject AND objects.property = changed.property
            LEFT JOIN olds ON olds.subject = changed.subject AND olds.property = changed.property
        )
        SELECT *, CASE {reasons} END AS reason FROM labelled
        """.replace("subject IN wikimedia_pages", "subject IN (SELECT subject FROM wikimedia_pages)")
    )
    counts = dict(workspace.execute("SELECT reason, count(*) FROM judged GROUP BY reason").fetchall())
    names = [reason for reason, _ in FILTERS]
    return pa.table({"reason": names, "count": pa.array([counts.get(name, 0) for name in names], pa.int64())})


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


def _typed(changed: pa.Table) -> pa.Table:
    """Fix the types of columns that an empty result, or one of empty lists alone, leaves open."""
    text, texts = pa.string(), pa.list_(pa.string())
    types = {"subject": text, "property": text, "old_objects": texts, "new_objects": texts, "statement_ids": texts}
    schema = pa.schema([(name, types.get(name, pa.bool_())) for name in changed.column_names])
    return changed.cast(schema)
