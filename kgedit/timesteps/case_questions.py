"""The final filters on the questions of an export: failing questions are left out, a failing update drops its case.

Clozes are not questions: only those that give the answer away are left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from kgedit.store.engine import select
from kgedit.timesteps.final_filters import FACTS, QUESTIONS, REASONS, Words, count_faults, find_faults, gives_away
from kgedit.timesteps.funnel import Filter, Filtered, split_by_reason

NAMED = "regexp_replace(name, '^the ', '')"
"""SQL of the subject's name as a question must contain it, without the article, which may begin the question."""


class FilteredQuestions(NamedTuple):
    """Rows with their questions judged.

    Attributes:
        rows: With a column ``fault``: the final filter that the row's own question fails, null where it passes.
        counts: From kgedit.timesteps.final_filters.count_faults.
    """

    rows: pa.Table
    counts: dict[str, dict[str, Any]]


def faults_as_filters(which: str = "") -> tuple[Filter, ...]:
    """The final filters over a column ``fault``.

    Args:
        which: Prefix of the reasons, to show which question failed.
    """
    return tuple((f"{which}{reason}", f"fault = '{reason}'") for reason in REASONS)


def judge_cases(worded: pa.Table, words: Words) -> FilteredQuestions:
    """Judge the update question, the rephrasings and the persona's question of cases.

    Args:
        worded: Columns case_id, property, object_label, object_aliases, name, question, rephrase, rephrases, clozes,
            persona and personas, in any order of rows.
        words: Stems that express each relation.

    Returns:
        The cases, ordered by case_id: personas is null if it fails, rephrases excludes failing texts, and rephrase is
        the first remaining one.
    """
    asked = select(
        """
        SELECT case_id AS fact, 0::BIGINT AS number, 'update' AS axis, [property] AS relations,
               NULL::VARCHAR AS persona, question FROM worded
        UNION ALL
        SELECT case_id, generate_subscripts(rephrases, 1), 'rephrase', [property], NULL, unnest(rephrases) FROM worded
        UNION ALL
        SELECT case_id, len(rephrases) + 1, 'personas', [property], persona, personas FROM worded
        WHERE personas IS NOT NULL
        """,
        worded=worded,
    ).cast(QUESTIONS)
    judged = find_faults(asked, _facts(worded, "case_id"), words)
    rows = select(
        f"""
        WITH left_over AS (
            SELECT fact AS case_id, max(reason) FILTER (axis = 'update') AS fault,
                   coalesce(list(question ORDER BY number) FILTER (axis = 'rephrase' AND reason IS NULL), [])
                       AS rephrases,
                   max(question) FILTER (axis = 'personas' AND reason IS NULL) AS personas
            FROM judged GROUP BY fact
        )
        SELECT w.* REPLACE (l.rephrases[1] AS rephrase, l.rephrases AS rephrases, l.personas AS personas,
                            list_filter(clozes, lambda w: NOT {gives_away("w", "object_label")}) AS clozes), fault
        FROM worded w JOIN left_over l USING (case_id) ORDER BY case_id
        """,  # noqa: S608 - our own names
        worded=worded,
        judged=judged,
    )
    return FilteredQuestions(rows, count_faults(judged))


def judge_probes(probes: pa.Table, words: Words) -> FilteredQuestions:
    """Judge locality questions.

    Args:
        probes: Columns property, object_label, object_aliases, name and question.
        words: Stems that express each relation.

    Returns:
        The probes, in their order.
    """
    numbered = _numbered(probes)
    asked = select(
        "SELECT fact, 0::BIGINT AS number, 'locality' AS axis, [property] AS relations, NULL::VARCHAR AS persona, "
        "question FROM numbered",
        numbered=numbered,
    ).cast(QUESTIONS)
    judged = find_faults(asked, _facts(numbered, "fact"), words)
    return FilteredQuestions(_with_faults(numbered, judged), count_faults(judged))


def keep_probes(probes: pa.Table, words: Words) -> Filtered:
    """Split locality questions into those that pass and the others; see judge_probes."""
    judged = judge_probes(probes, words)
    parts = split_by_reason(judged.rows.rename_columns({"fault": "reason"}), faults_as_filters())
    return parts._replace(questions=judged.counts)


def judge_two_hops(nested: pa.Table, words: Words) -> FilteredQuestions:
    """Judge two-hop questions and their rephrasings.

    Args:
        nested: Columns name (of the first subject), first_property, first_label and first_aliases (of the entity in the
            middle), property, object_label, object_aliases, question and rephrases; name is null if there is no such
            case, and nothing is judged.
        words: Stems that express each relation.

    Returns:
        The rows, in their order; rephrases excludes failing texts.
    """
    numbered = _numbered(nested)
    asked = select(
        """
        SELECT fact, 0::BIGINT AS number, 'mhop' AS axis, [first_property, property] AS relations,
               NULL::VARCHAR AS persona, question FROM numbered WHERE question IS NOT NULL
        UNION ALL
        SELECT fact, generate_subscripts(rephrases, 1), 'mhop_rephrase', [first_property, property], NULL,
               unnest(rephrases) FROM numbered WHERE question IS NOT NULL
        """,
        numbered=numbered,
    ).cast(QUESTIONS)
    hidden = "list_prepend(first_label, coalesce(first_aliases, []))"
    judged = find_faults(asked, _facts(numbered, "fact", hidden=hidden), words)
    rows = select(
        """
        SELECT n.* REPLACE (coalesce(list_filter(rephrases, lambda w: list_contains(passed, w)), []) AS rephrases)
        FROM numbered n LEFT JOIN (
            SELECT fact, list(question) FILTER (reason IS NULL) AS passed FROM judged GROUP BY fact
        ) USING (fact) ORDER BY n.number
        """,
        numbered=numbered,
        judged=judged,
    )
    return FilteredQuestions(_with_faults(rows, judged), count_faults(judged))


def _numbered(rows: pa.Table) -> pa.Table:
    numbers = pa.array(range(rows.num_rows), pa.int64())
    return rows.append_column("number", numbers).append_column("fact", numbers.cast(pa.string()))


def _facts(rows: pa.Table, key: str, *, hidden: str = "[]") -> pa.Table:
    return select(
        f"SELECT {key} AS fact, {NAMED} AS subject, object_label AS answer, object_aliases AS accepted, "  # noqa: S608 - ours
        f"{hidden} AS hidden, [] AS unlike FROM rows",
        rows=rows,
    ).cast(FACTS)


def _with_faults(numbered: pa.Table, judged: pa.Table) -> pa.Table:
    """Rows in their order, with the fault of the first question of each."""
    return select(
        "SELECT n.* EXCLUDE (number, fact), reason AS fault "
        "FROM numbered n LEFT JOIN (FROM judged WHERE number = 0) j ON j.fact = n.fact ORDER BY n.number",
        numbered=numbered,
        judged=judged,
    )
