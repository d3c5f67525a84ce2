"""Questions over several facts, asked without naming anything in between: two-hop questions and longer chains.

A two-hop question joins two kept cases that form a chain by id (WikiBigEdit, section 3). A chain of three or four facts
has one edit and unchanged facts around it. The edit may be any hop. The answer depends on it: neither a shorter path of
current facts nor the replaced object leads there. Unlike a two-hop question, a chain needs no second edit, so it can be
asked after each single one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.engine import select
from kgedit.store.window import Window
from kgedit.timesteps.chain_paths import MOST_HOPS, PATH_FILTERS, find_paths, judge_paths, under_newer_ids
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.filters import (
    SAME_NAME,
    Filter,
    Filtered,
    add_counts,
    beyond_subject,
    faults_as_filters,
    gives_away,
    judge_chains,
    judge_probes,
    judge_two_hops,
    reason_column,
    split_by_reason,
)
from kgedit.timesteps.labels import describe_subjects, pages_among, usable
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.tables import FACT
from kgedit.timesteps.wording import agreed, begun_all, say, say_all, word_facts
from kgedit.wikidata.ids import JURISDICTION, OFFICES, POSITION_HELD, TWO_HOP_STOP_LIST
from kgedit.wording.catalogues import Language

TWO_HOP_FILTERS: tuple[Filter, ...] = (
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
        chains: From an engine; columns kgedit.timesteps.engines.TWO_HOPS.
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
        ), wanted AS MATERIALIZED (
            SELECT old_bridge AS id FROM old_bridge UNION SELECT subject FROM chain UNION SELECT object FROM chain
        ), redirect AS MATERIALIZED (
            FROM new_redirects
        ), known AS MATERIALIZED (
            -- Both snapshots have facts of an item under its id, the older one also under those of merged items.
            FROM wanted UNION SELECT r.id FROM redirect r SEMI JOIN wanted ON wanted.id = target
        ), fact AS MATERIALIZED (
            SELECT DISTINCT subject, property, object FROM ({under_newer_ids(_OF_KNOWN, "redirect")})
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


_OF_KNOWN = " UNION ALL ".join(
    f"SELECT subject, property, object FROM {side}_facts WHERE subject IN (FROM known)" for side in ("old", "new")
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
    judged = judge_two_hops(_worded_pairs(chains, cases, templates, words.language), words)
    reasoned = select(f"SELECT *, {reason_column(TWO_HOP_FILTERS)} FROM judged", judged=judged.rows)
    filtered = split_by_reason(reasoned, TWO_HOP_FILTERS)
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


def _worded_pairs(chains: pa.Table, cases: pa.Table, templates: pa.Table, language: Language) -> pa.Table:
    """Chains with their questions: the second hop's template with the first one's phrase as subject."""
    bridge = f"replace({agreed('t1.phrase', 'first.name')}, '{{subject}}', first.name)"
    aliases = beyond_subject("second.object_aliases", "first.subject_label")
    return select(
        f"""
        WITH joined AS (
            SELECT first.case_id, second.case_id AS second_case_id, first.name,
                   first.subject_label AS start_label, first_property,
                   second.* EXCLUDE (case_id, name, subject_class) REPLACE ({aliases} AS object_aliases),
                   first.object_label AS first_label,
                   first.object_aliases AS first_aliases, {bridge} AS nested_,
                   list_concat([t2.question], t2.rephrases) AS asked_,
                   same_by_old_bridge, follows_from_subject
            FROM chains
            LEFT JOIN cases first ON first.subject = chains.subject AND first.property = first_property
                                 AND first.object = bridge
            LEFT JOIN cases second ON second.subject = bridge AND second.property = second_property
                                  AND second.object = chains.object
            LEFT JOIN templates t1 ON t1.property = first.property AND t1.subject_class = first.subject_class
            LEFT JOIN templates t2 ON t2.property = second.property AND t2.subject_class = second.subject_class
        ), worded AS (
            SELECT * REPLACE ({begun_all("asked_", "nested_", language=language)} AS asked_) FROM joined
        )
        SELECT * EXCLUDE (nested_, asked_, same_by_old_bridge, follows_from_subject),
               asked_[1] AS question, asked_[2:] AS rephrases, same_by_old_bridge, follows_from_subject
        FROM worded
        """,
        chains=chains,
        cases=cases.select(["case_id", *FACT, "object_aliases", "name", "subject_class"]),
        templates=templates,
    )


_WORDED_AT_ONCE = 20_000
"""Chains whose questions are in memory together, more by those of one case."""

_OF_WORDED: tuple[Filter, ...] = (
    ("a label cannot be used in questions", "unusable"),
    (SAME_NAME, "ambiguous"),
    ("a question about a single hop fails a final filter", "hop_fails"),
    *faults_as_filters("question: "),
    ("question: it names an entity in the middle", "names_middle"),
)

CHAIN_FILTERS = (*PATH_FILTERS, *_OF_WORDED)


class Chains(NamedTuple):
    """Chains of a window.

    Attributes:
        kept: With the schema kgedit.timesteps.tables.CHAINS, at most one row per case and length.
        counts: For the manifest: paths found, dropped by reason, kept, and asked by length.
        questions: Axis -> results of the final filters.
    """

    kept: pa.Table
    counts: dict[str, Any]
    questions: Mapping[str, dict[str, Any]]


def find_chains(
    engine: Engine, window: Window, cases: pa.Table, templates: pa.Table, words: RelationWords, *, hops: int, seed: int
) -> Chains:
    """Find chains through cases, and word them.

    Args:
        engine: Finds the facts around the cases.
        window: Both snapshots.
        cases: From kgedit.timesteps.wording.word_cases.
        templates: From choose_templates; only properties with a template of their own are a hop.
        words: Stems that express each relation.
        hops: Length of the longest chains, 3 or 4.
        seed: Seed of the choice among the paths of a case.
    """
    paths = find_paths(engine, window, cases, _hop_properties(templates), hops=hops, seed=seed)
    judged = judge_paths(window, paths, cases)
    asked, dropped, questions = _ask(window, judged.kept, templates, words, seed=seed)
    lengths = {str(row["values"]): row["counts"] for row in pc.value_counts(asked["hops"]).to_pylist()}
    kept = judged.kept.num_rows - sum(dropped.values())
    counts = {"found": paths.num_rows} | judged.funnel | dropped
    counts |= {"kept": kept, "asked": dict(sorted(lengths.items()))}
    return Chains(asked, counts, questions)


def _ask(
    window: Window, paths: pa.Table, templates: pa.Table, words: RelationWords, *, seed: int
) -> tuple[pa.Table, dict[str, int], dict[str, dict[str, Any]]]:
    """Word chains in parts, because worded chains are ten times as large.

    Returns:
        One chain per case and length; the number of dropped ones by reason; results of the final filters.
    """
    window.run(_ENTITIES, paths=paths)
    labels = window.select(_SUBJECT_LABELS, paths=paths)
    subjects = describe_subjects(window.connection, labels, language=words.language)
    kept, funnel, questions = list[pa.Table](), Counter[str](), list[dict[str, dict[str, Any]]]()
    for part in _parts_of_cases(paths):
        worded, counts = _word_chains(window, part, subjects, templates, words)
        filtered = split_by_reason(worded, _OF_WORDED)
        kept.append(
            select(
                """
                FROM kept QUALIFY row_number() OVER (
                    PARTITION BY case_id, hops ORDER BY md5(concat_ws('|', $seed, case_id, question))) = 1
                ORDER BY case_id, hops
                """,
                {"seed": str(seed)},
                kept=filtered.kept,
            )
        )
        funnel.update(filtered.funnel)
        questions.append(counts)
    window.drop("chain_entity", "chain_page")
    return pa.concat_tables(kept), dict(funnel), add_counts(questions)


def _parts_of_cases(paths: pa.Table) -> Iterator[pa.Table]:
    """Paths in parts, at least one, with all paths of a case in the same part; they are ordered by case_id."""
    cases = pc.run_end_encode(paths["case_id"].combine_chunks())
    ends = np.asarray(cases.run_ends)
    first = 0
    while first < paths.num_rows - _WORDED_AT_ONCE:
        end = int(ends[np.searchsorted(ends, first + _WORDED_AT_ONCE)])
        yield paths.slice(first, end - first)
        first = end
    yield paths.slice(first)


def unchanged_hops(chains: pa.Table) -> pa.Table:
    """Facts of chains that are in both snapshots; columns subject, property and object."""
    return select(
        """
        SELECT DISTINCT fact.subject, fact.property, fact.object
        FROM (SELECT unnest(facts) AS fact, generate_subscripts(facts, 1) AS place, position FROM chains)
        WHERE place <> position ORDER BY ALL
        """,
        chains=chains,
    )


def _hop_properties(templates: pa.Table) -> list[str]:
    own = templates.filter(pc.invert(pc.ends_with(templates["template"], ":generic")))
    return sorted(set(own["property"].to_pylist()) - set(TWO_HOP_STOP_LIST))


# Entities of chains, and which of them are Wikimedia pages.
_ENTITIES = f"""
    CREATE TABLE chain_entity AS
    SELECT id, label, coalesce(aliases, []) AS aliases FROM new_entities
    WHERE id IN (SELECT unnest(nodes) FROM paths UNION SELECT unnest(properties) FROM paths);
    CREATE TABLE chain_page AS {pages_among("chain_entity")}
"""

_SUBJECT_LABELS = """
    SELECT subject, coalesce(label, subject) AS subject_label
    FROM (SELECT DISTINCT unnest(nodes[:-2]) AS subject FROM paths) LEFT JOIN chain_entity ON id = subject
    ORDER BY subject
"""


def _word_chains(
    window: Window, paths: pa.Table, subjects: pa.Table, templates: pa.Table, words: RelationWords
) -> tuple[pa.Table, dict[str, dict[str, Any]]]:
    """Chains with their questions and a column ``reason``, and the counts of the final filters."""
    language = words.language
    named = _facts_of(window, paths, language)
    facts = word_facts(named, templates, subjects, language=language)
    single = judge_probes(facts, words, axis="hop")
    nested = _nested(paths, facts, templates, language)
    judged = judge_chains(nested, words)
    reasoned = select(
        f"""
        WITH fact AS (
            SELECT chain, bool_or(fault IS NOT NULL) AS hop_fails, bool_or(unusable) AS unusable,
                   bool_or(ambiguous) AS ambiguous,
                   list(struct_pack({", ".join(f"{name} := {name}" for name in (*FACT, "object_aliases"))},
                                    question := question, cloze := cloze) ORDER BY hop) AS facts,
                   list(object_label ORDER BY hop)[:-2] AS middle,
                   arg_max(object_label, hop) AS object_label
            FROM single GROUP BY chain
        ), joined AS (
            SELECT p.chain, p.case_id, p.hops, position, facts, f.object_label, j.object_aliases, old_answers,
                   j.question, j.rephrases, unusable, ambiguous, hop_fails, j.fault,
                   len(list_filter(middle, lambda name: {gives_away("j.question", "name")})) > 0 AS names_middle
            FROM paths p JOIN fact f USING (chain) JOIN judged j USING (chain)
        )
        SELECT * EXCLUDE (unusable, ambiguous, hop_fails, fault, names_middle),
               {reason_column(_OF_WORDED)}
        FROM joined ORDER BY chain
        """,
        paths=paths,
        single=single.rows,
        judged=judged.rows,
    )
    return reasoned, {**judged.counts, **single.counts}


def _facts_of(window: Window, paths: pa.Table, language: Language) -> pa.Table:
    """One row per path and hop with labels, ordered by both; unusable: a label is missing or unfit for questions."""
    return window.select(
        f"""
        WITH fact AS (
            SELECT chain, unnest(range(1, hops + 1)) AS hop, nodes, properties FROM paths
        ), named AS (
            SELECT chain, hop, nodes[hop] AS subject, properties[hop] AS property, nodes[hop + 1] AS object FROM fact
        )
        SELECT n.*, coalesce(s.label, n.subject) AS subject_label, coalesce(p.label, n.property) AS property_label,
               coalesce(o.label, n.object) AS object_label, coalesce(o.aliases, []) AS object_aliases,
               NOT coalesce({usable("s.label", language)} AND {usable("o.label", language)}, false)
                   OR s.id IN (FROM chain_page) OR o.id IN (FROM chain_page) AS unusable
        FROM named n LEFT JOIN chain_entity s ON s.id = n.subject LEFT JOIN chain_entity p ON p.id = n.property
        LEFT JOIN chain_entity o ON o.id = n.object ORDER BY chain, hop
        """,
        paths=paths,
    )


def _nested(paths: pa.Table, facts: pa.Table, templates: pa.Table, language: Language) -> pa.Table:
    """Chains with their questions: that of the last hop, with the nested phrases of the earlier hops as its subject."""
    facts = facts.append_column("position", facts["hop"])
    texts = select("SELECT chain, name AS text FROM facts WHERE position = 1 ORDER BY chain", facts=facts)
    for hop in range(1, MOST_HOPS):
        nested = f"replace({agreed('t.phrase', 'text')}, '{{subject}}', text)"
        texts = select(
            f"""
            SELECT chain, CASE WHEN hops > $hop THEN {nested} ELSE text END AS text
            FROM texts JOIN paths USING (chain)
            LEFT JOIN (FROM facts WHERE position = $hop) f USING (chain)
            LEFT JOIN templates t ON t.property = f.property AND t.subject_class = f.subject_class ORDER BY chain
            """,
            {"hop": hop},
            texts=texts,
            paths=paths.select(["chain", "hops"]),
            facts=facts.select(["chain", "position", "property", "subject_class"]),
            templates=templates,
        )
    return select(
        f"""
        WITH middle AS (
            SELECT chain, list_concat(list(object_label ORDER BY position),
                                       flatten(list(object_aliases ORDER BY position))) AS hidden
            FROM facts JOIN paths USING (chain) WHERE position < hops GROUP BY chain
        )
        SELECT chain, first.name, first.subject_label AS start_label, properties AS relations, hidden,
               last.object_label, {beyond_subject("last.object_aliases", "first.subject_label")} AS object_aliases,
               {say("question", "text", language=language)} AS question,
               {say_all("rephrases", "text", language=language)} AS rephrases
        FROM paths JOIN texts USING (chain) JOIN middle USING (chain)
        JOIN (FROM facts WHERE position = 1) first USING (chain)
        JOIN facts last ON last.chain = paths.chain AND last.position = hops
        JOIN templates t ON t.property = last.property AND t.subject_class = last.subject_class ORDER BY chain
        """,
        paths=paths.select(["chain", "hops", "properties"]),
        texts=texts,
        facts=facts.select(["chain", "position", "subject_class", "name", *FACT, "object_aliases"]),
        templates=templates,
    )
