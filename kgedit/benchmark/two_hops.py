"""Two-hop questions: two kept cases that chain by id, asked without naming the bridge (WikiBigEdit, section 3)."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

FILTERS = (
    ("a hop was dropped from the cases", "first.case_id IS NULL OR second.case_id IS NULL"),
    ("the question names the bridge", "contains(lower(asked), lower(first.object_label))"),
    ("the question names the answer", "contains(lower(asked), lower(second.object_label))"),
)


def find_two_hops(
    graph: Graph, workspace: duckdb.DuckDBPyConnection, *, old: int, new: int, seed: int
) -> dict[str, int]:
    """Table ``hops``: every usable chain with its question; one per first case, by seed, is `chosen`.

    Returns:
        How many chains the graph has, and how many were dropped, by reason.
    """
    found = graph.table(read_query("two_hop_changes").text, {"from": old, "to": new, "stop": list(TWO_HOP_STOP_LIST)})
    workspace.register("found", found.cast(pa.schema([(name, pa.string()) for name in found.column_names])))
    reasons = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in FILTERS)
    workspace.execute(
        f"""
        CREATE TABLE chains AS
        SELECT first.case_id, second.case_id AS second_case_id, second.* EXCLUDE (case_id),
               say_question(t2, say_phrase(t1, first.subject_label)) AS asked, CASE {reasons} END AS reason
        FROM found
        LEFT JOIN facts first ON first.subject = found.subject AND first.property = first_property
                             AND first.object = bridge
        LEFT JOIN facts second ON second.subject = bridge AND second.property = second_property
                              AND second.object = found.object
        LEFT JOIN templates t1 ON t1.property = first.property
        LEFT JOIN templates t2 ON t2.property = second.property
        """  # noqa: S608 - our own names and numbers
    )
    workspace.unregister("found")
    workspace.execute(
        """
        CREATE TABLE hops AS
        SELECT *, asked AS question,
               row_number() OVER (PARTITION BY case_id
                                  ORDER BY md5(concat_ws('|', ?::VARCHAR, case_id, second_case_id))) = 1 AS chosen
        FROM chains WHERE reason IS NULL
        """,
        [seed],
    )
    counts = dict(workspace.execute("SELECT reason, count(*) FROM chains GROUP BY reason").fetchall())
    return {"found": found.num_rows} | {reason: counts.get(reason, 0) for reason, _ in FILTERS}
