"""Locality probes: for each edit an unchanged fact with the same relation, a similar subject and another object.

Neither its subject nor its object was edited in the window. Similarity is shared rare facts (kgedit.store.similarity);
where a subject shares none, the subject with the most similar label, as in WikiBigEdit, among unchanged facts.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from kgedit.benchmark.changes import MAX_LABEL_WORDS, read_table
from kgedit.store.similarity import SIMILAR, find_similar_facts, find_static_facts

CANDIDATES = 5
"""Similar facts per edit before the label filters."""


def find_locality(workspace: duckdb.DuckDBPyConnection, *, pool: int, max_df: int) -> None:
    """Tables ``static_facts`` (labelled, at most `pool` per relation) and ``locality_facts`` (one per case at most).

    Args:
        workspace: With both snapshots and the table facts.
        pool: Unchanged facts of each relation to choose from.
        max_df: Facts shared by more items do not count for similarity.
    """
    edits = read_table(workspace, "SELECT case_id, subject, property FROM facts ORDER BY case_id")
    find_static_facts(workspace, edits)
    static = read_table(
        workspace,
        "SELECT * FROM static "  # noqa: S608 - our own names and numbers
        f"QUALIFY row_number() OVER (PARTITION BY property ORDER BY subject) <= {pool} ORDER BY property, subject",
    )
    _label(workspace, "static_facts", static)
    count = "SELECT count(*) FROM old_entities WHERE kind = 'item'"
    items = int(workspace.execute(count).fetchall()[0][0])
    similar = pa.Table.from_batches(find_similar_facts(workspace, items=items, max_df=max_df, k=CANDIDATES), SIMILAR)
    _label(workspace, "similar_facts", similar)
    workspace.execute(
        """
        CREATE TABLE locality_facts AS
        WITH by_graph AS (
            SELECT *, 'graph' AS basis FROM similar_facts
            QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY score DESC, subject) = 1
        ), by_label AS (
            SELECT f.case_id, s.*, jaro_winkler_similarity(f.subject_label, s.subject_label) AS score, 'label' AS basis
            FROM facts f JOIN static_facts s USING (property)
            WHERE f.case_id NOT IN (SELECT case_id FROM by_graph) AND s.subject <> f.subject AND s.object <> f.object
              AND NOT list_contains(f.old_objects, s.object)
              AND s.subject NOT IN (FROM edited) AND s.object NOT IN (FROM edited)
            QUALIFY row_number() OVER (PARTITION BY f.case_id ORDER BY score DESC, s.subject) = 1
        )
        SELECT * FROM by_graph UNION ALL BY NAME SELECT * FROM by_label
        """
    )


def _label(workspace: duckdb.DuckDBPyConnection, name: str, found: pa.Table) -> None:
    """Give found facts their labels of the newer snapshot and keep those that pass the label filters."""
    workspace.register("found", found)
    usable = "is_roman({0}) AND length({0}) > 1 AND words({0}) <= " + str(MAX_LABEL_WORDS)
    workspace.execute(
        f"""
        CREATE TABLE {name} AS
        SELECT f.*, s.label AS subject_label, coalesce(p.label, f.property) AS property_label, o.label AS object_label,
               coalesce(o.aliases, []) AS object_aliases
        FROM found f JOIN new_entities s ON s.id = f.subject JOIN new_entities o ON o.id = f.object
        LEFT JOIN new_entities p ON p.id = f.property
        WHERE {usable.format("s.label")} AND {usable.format("o.label")}
        """  # noqa: S608 - our own names and numbers
    )
    workspace.unregister("found")
