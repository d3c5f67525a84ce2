"""Locality probes: for each edit an unchanged fact with the same relation, a similar subject and another object.

Neither its subject nor its object was edited in the window. Similarity is the graph's (shared rare neighbours); where
a subject shares none, the subject with the most similar label, as in WikiBigEdit, among unchanged facts.
"""

from __future__ import annotations

import duckdb

from kgedit.benchmark.changes import MAX_LABEL_WORDS, read_table
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query

EDITS_PER_QUERY = 500
CANDIDATES = 5
"""Similar facts asked for each edit: some fall to the label filters."""


def find_locality(
    graph: Graph, workspace: duckdb.DuckDBPyConnection, *, old: int, new: int, pool: int, max_df: int
) -> None:
    """Tables ``static_facts`` (labelled, at most `pool` per relation) and ``locality_facts`` (one per case at most).

    Args:
        graph: Holds both snapshots.
        workspace: With the table facts.
        old: Day number of the older snapshot.
        new: Day number of the newer one.
        pool: Unchanged facts of each relation to choose from.
        max_df: Objects with more claims are hubs and tell nothing.
    """
    window = {"from": old, "to": new}
    workspace.execute("CREATE TABLE edited AS SELECT DISTINCT subject AS id FROM changed")
    properties = [row[0] for row in workspace.execute("SELECT DISTINCT property FROM facts ORDER BY 1").fetchall()]
    static = graph.table(
        read_query("static_facts").text, {**window, "properties": properties, "limit": pool}, timeout=None
    )
    _label(workspace, "static_facts", static, ("subject", "property", "object"))
    edited = [row[0] for row in workspace.execute("SELECT id FROM edited ORDER BY id").fetchall()]
    edits = read_table(
        workspace,
        "SELECT case_id, subject, property, list_concat(old_objects, [object]) AS avoid FROM facts ORDER BY case_id",
    )
    workspace.execute("CREATE TABLE likes (case_id VARCHAR, subject VARCHAR, object VARCHAR, score DOUBLE)")
    text = read_query("similar_static_facts").text
    for batch in edits.to_batches(max_chunksize=EDITS_PER_QUERY):
        parameters = {**window, "edits": batch.to_pylist(), "edited": edited, "max_df": max_df, "k": CANDIDATES}
        found = graph.table(text, parameters)
        if found.num_rows:
            workspace.register("found", found)
            workspace.execute("INSERT INTO likes SELECT case_id, subject, object, score FROM found")
            workspace.unregister("found")
    _choose(workspace)


def _choose(workspace: duckdb.DuckDBPyConnection) -> None:
    similar = read_table(
        workspace, "SELECT s.case_id, s.subject, property, s.object, score FROM likes s JOIN facts USING (case_id)"
    )
    _label(workspace, "similar_facts", similar, ("case_id", "subject", "property", "object", "score"))
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
              AND s.subject NOT IN (SELECT id FROM edited) AND s.object NOT IN (SELECT id FROM edited)
            QUALIFY row_number() OVER (PARTITION BY f.case_id ORDER BY score DESC, s.subject) = 1
        )
        SELECT * FROM by_graph UNION ALL BY NAME SELECT * FROM by_label
        """
    )


def _label(workspace: duckdb.DuckDBPyConnection, name: str, found: object, columns: tuple[str, ...]) -> None:
    """Give found facts their labels of the newer snapshot and keep those that pass the label filters."""
    workspace.register("found", found)
    types = {column: "DOUBLE" if column == "score" else "VARCHAR" for column in columns}
    usable = "is_roman({0}) AND length({0}) > 1 AND words({0}) <= " + str(MAX_LABEL_WORDS)
    workspace.execute(
        f"""
        CREATE TABLE {name} AS
        SELECT {", ".join(f"f.{column}::{kind} AS {column}" for column, kind in types.items())},
               s.label AS subject_label, coalesce(p.label, f.property) AS property_label, o.label AS object_label,
               coalesce(o.aliases, []) AS object_aliases
        FROM found f JOIN new_entities s ON s.id = f.subject JOIN new_entities o ON o.id = f.object
        LEFT JOIN new_entities p ON p.id = f.property
        WHERE {usable.format("s.label")} AND {usable.format("o.label")}
        """
    )
    workspace.unregister("found")
