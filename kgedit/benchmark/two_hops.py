"""Two-hop questions: two kept cases that chain by id, asked without naming the bridge (WikiBigEdit, section 3)."""

from __future__ import annotations

import pyarrow as pa

from kgedit.benchmark.funnel import Filter, Filtered, reason_column, split_by_reason
from kgedit.benchmark.window import Window
from kgedit.benchmark.wording import say
from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.store.engine import select
from kgedit.wikidata.ids import TWO_HOP_STOP_LIST

FILTERS: tuple[Filter, ...] = (
    ("a hop was dropped from the cases", "case_id IS NULL OR second_case_id IS NULL"),
    ("the question names the bridge", "contains(lower(question), lower(first_label))"),
    ("the question names the answer", "contains(lower(question), lower(object_label))"),
)


def find_chains(graph: Graph, window: Window) -> pa.Table:
    """Pairs of changed edges of which the second starts where the first ends: cypher/read/two_hop_changes."""
    parameters = {"from": window.old.date, "to": window.new.date, "stop": list(TWO_HOP_STOP_LIST)}
    found = graph.table(read_query("two_hop_changes").text, parameters)
    return found.cast(pa.schema([(name, pa.string()) for name in found.column_names]))


def make_two_hops(chains: pa.Table, cases: pa.Table, templates: pa.Table, *, seed: int) -> Filtered:
    """Chains as questions about the second hop's object.

    Args:
        chains: From find_chains.
        cases: From make_cases.
        templates: From choose_templates.
        seed: Of several second hops of a case it chooses the one that is asked.

    Returns:
        The kept ones have the second case's fact, ``case_id`` (of the first), ``second_case_id``, ``question`` and
        ``chosen``, ordered by both ids.
    """
    asked = say("question", say("phrase", "first.subject_label", template="t1"), template="t2")
    judged = select(
        f"""
        SELECT *, {reason_column(FILTERS)}
        FROM (
            SELECT first.case_id, second.case_id AS second_case_id, second.* EXCLUDE (case_id),
                   first.object_label AS first_label, {asked} AS question
            FROM chains
            LEFT JOIN cases first ON first.subject = chains.subject AND first.property = first_property
                                 AND first.object = bridge
            LEFT JOIN cases second ON second.subject = bridge AND second.property = second_property
                                  AND second.object = chains.object
            LEFT JOIN templates t1 ON t1.property = first.property
            LEFT JOIN templates t2 ON t2.property = second.property
        )
        """,  # noqa: S608 - our own names
        chains=chains,
        cases=cases,
        templates=templates,
    )
    filtered = split_by_reason(judged, FILTERS)
    kept = select(
        """
        SELECT *, row_number() OVER (
            PARTITION BY case_id ORDER BY md5(concat_ws('|', $seed, case_id, second_case_id))) = 1 AS chosen
        FROM kept ORDER BY case_id, second_case_id
        """,
        {"seed": str(seed)},
        kept=filtered.kept,
    )
    return filtered._replace(kept=kept)
