"""Two-hop questions: two kept cases that form a chain by id, without naming the bridge (WikiBigEdit, section 3)."""

from __future__ import annotations

import pyarrow as pa

from kgedit.store.engine import select
from kgedit.store.window import Window
from kgedit.timesteps.final_filters import faults_as_filters, judge_two_hops
from kgedit.timesteps.funnel import Filter, Filtered, reason_column, split_by_reason
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.tables import FACT
from kgedit.timesteps.wording import agreed, say, say_all
from kgedit.wikidata.ids import JURISDICTION, OFFICES, POSITION_HELD
from kgedit.wording.catalogues import Language

FILTERS: tuple[Filter, ...] = (
    ("a hop was dropped from the cases", "case_id IS NULL OR second_case_id IS NULL"),
    *faults_as_filters("question: "),
    ("the old bridge gives the same answer", "same_by_old_bridge"),
    ("the answer follows from the first subject", "follows_from_subject"),
)
"""The last two keep chains that depend on the edit: every head of government of a country holds the same office."""


def find_shortcuts(window: Window, chains: pa.Table, cases: pa.Table) -> pa.Table:
    """Find chains that have the same end without the edit.

    Args:
        window: Window with the facts of both snapshots.
        chains: From an engine; columns kgedit.timesteps.engines.protocol.TWO_HOPS.
        cases: From word_cases.

    Returns:
        The columns of `chains`, with same_by_old_bridge (an object that the first case replaced leads to the same end,
        in either snapshot) and follows_from_subject (the first subject has the end as a value itself, or the end is the
        office that the bridge holds there).
    """
    return window.select(
        f"""
        WITH chain AS (FROM chains), old_bridge AS (
            SELECT chain.*, unnest(old_objects) AS old_bridge FROM chain
            JOIN cases c ON c.subject = chain.subject AND c.property = first_property AND c.object = bridge
        ), fact AS MATERIALIZED (
            SELECT subject, property, object FROM old_facts
            WHERE subject IN (SELECT old_bridge FROM old_bridge) OR subject IN (SELECT subject FROM chain)
               OR subject IN (SELECT object FROM chain)
            UNION
            SELECT subject, property, object FROM new_facts
            WHERE subject IN (SELECT old_bridge FROM old_bridge) OR subject IN (SELECT subject FROM chain)
               OR subject IN (SELECT object FROM chain)
        ), same AS (
            SELECT DISTINCT o.* EXCLUDE (old_bridge) FROM old_bridge o
            JOIN fact f ON f.subject = old_bridge AND f.property = second_property AND f.object = o.object
        ), link AS (
            SELECT subject AS one, object AS other FROM fact
            UNION SELECT object, subject FROM fact WHERE property IN {JURISDICTION}
        )
        SELECT chain.*, chain IN (SELECT same FROM same) AS same_by_old_bridge,
               (chain.subject, chain.object) IN (SELECT (one, other) FROM link)
                   OR first_property IN {OFFICES} AND second_property = '{POSITION_HELD}' AS follows_from_subject
        FROM chain ORDER BY ALL
        """,
        chains=chains,
        cases=cases.select(["subject", "property", "object", "old_objects"]),
    )


def make_two_hops(
    chains: pa.Table, cases: pa.Table, templates: pa.Table, words: RelationWords, *, seed: int
) -> Filtered:
    """Turn chains into questions about the second hop's object.

    Args:
        chains: From find_shortcuts.
        cases: From word_cases.
        templates: From choose_templates.
        words: Stems that express each relation (kgedit.timesteps.relation_words).
        seed: Seed of the choice among several second hops of a case.

    Returns:
        The kept ones have the second case's fact, ``case_id`` (of the first), ``second_case_id``, ``question``,
        ``rephrases`` (the second template's, about the same phrase) and ``chosen``, ordered by both ids.
    """
    judged = judge_two_hops(_nested(chains, cases, templates, words.language), words)
    reasoned = select(f"SELECT *, {reason_column(FILTERS)} FROM judged", judged=judged.rows)
    filtered = split_by_reason(reasoned, FILTERS)
    kept = select(
        """
        SELECT *, row_number() OVER (
            PARTITION BY case_id ORDER BY md5(concat_ws('|', $seed, case_id, second_case_id))) = 1 AS chosen
        FROM kept ORDER BY case_id, second_case_id
        """,
        {"seed": str(seed)},
        kept=filtered.kept,
    )
    return filtered._replace(kept=kept, questions=judged.counts)


def _nested(chains: pa.Table, cases: pa.Table, templates: pa.Table, language: Language) -> pa.Table:
    """Chains with their questions: the second hop's template with the first one's phrase as subject."""
    bridge = f"replace({agreed('t1.phrase', 'first.name')}, '{{subject}}', first.name)"
    asked, rephrased = (
        write(name, bridge, template="t2", language=language)
        for write, name in ((say, "question"), (say_all, "rephrases"))
    )
    return select(
        f"""
        SELECT first.case_id, second.case_id AS second_case_id, first.name, first_property,
               second.* EXCLUDE (case_id, name, subject_class), first.object_label AS first_label,
               first.object_aliases AS first_aliases, {asked} AS question, {rephrased} AS rephrases,
               same_by_old_bridge, follows_from_subject
        FROM chains
        LEFT JOIN cases first ON first.subject = chains.subject AND first.property = first_property
                             AND first.object = bridge
        LEFT JOIN cases second ON second.subject = bridge AND second.property = second_property
                              AND second.object = chains.object
        LEFT JOIN templates t1 ON t1.property = first.property AND t1.subject_class = first.subject_class
        LEFT JOIN templates t2 ON t2.property = second.property AND t2.subject_class = second.subject_class
        """,
        chains=chains,
        cases=cases.select(["case_id", *FACT, "object_aliases", "name", "subject_class"]),
        templates=templates,
    )
