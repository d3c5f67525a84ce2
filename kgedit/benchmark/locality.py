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


_CLOSEST_LABELS = """
    CREATE TABLE placed_facts AS
    SELECT *, row_number() OVER (ORDER BY property, subject) AS place FROM static_facts
    WHERE subject NOT IN (FROM edited) AND object NOT IN (FROM edited);
    CREATE TABLE closest_labels AS
    WITH lonely AS (
        SELECT case_id, subject, subject_label, property, object, old_objects
        FROM facts ANTI JOIN similar_facts USING (case_id)
    ), scored AS MATERIALIZED (
        SELECT f.case_id, s.place, jaro_winkler_similarity(f.subject_label, s.subject_label) AS score
        FROM lonely f JOIN placed_facts s USING (property)
        WHERE s.subject <> f.subject AND s.object <> f.object AND NOT list_contains(f.old_objects, s.object)
    ), best AS (
        SELECT case_id, max(score) AS score FROM scored GROUP BY case_id
    )
    SELECT case_id, score, min(place) AS place FROM scored JOIN best USING (case_id, score) GROUP BY case_id, score
"""
"""A row of `scored` is a number and a score: each such case is compared with all unchanged facts of its relation."""


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
    workspace.execute(_CLOSEST_LABELS)
    workspace.execute(
        """
        CREATE TABLE locality_facts AS
        SELECT *, 'graph' AS basis FROM similar_facts
        QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY score DESC, subject) = 1
        UNION ALL BY NAME
        SELECT c.case_id, s.* EXCLUDE (place), c.score, 'label' AS basis
        FROM closest_labels c JOIN placed_facts s USING (place)
        """
    )


def _label(workspace: duckdb.DuckDBPyConnection, name: str, found: pa.Table) -> None:
    """Give found facts their labels of the newer snapshot and keep those that pass the label filters."""
    workspace.register("found", found)
    usable = "is_roman({0}) AND length({0}) > 1 AND words({0}) <= " + str(MAX_LABEL_WORDS)
    workspace.execute(
        f"""
        CREATE TABLE {name} AS
        WITH entity AS MATERIALIZED (
            SELECT id, label, aliases FROM new_entities
            WHERE id IN (SELECT subject FROM found UNION SELECT object FROM found UNION SELECT property FROM found)
        )
        SELECT f.*, s.label AS subject_label, coalesce(p.label, f.property) AS property_label, o.label AS object_label,
               coalesce(o.aliases, []) AS object_aliases
        FROM found f JOIN entity s ON s.id = f.subject JOIN entity o ON o.id = f.object
        LEFT JOIN entity p ON p.id = f.property
        WHERE {usable.format("s.label")} AND {usable.format("o.label")}
        """  # noqa: S608 - our own names and numbers
    )
    workspace.unregister("found")
