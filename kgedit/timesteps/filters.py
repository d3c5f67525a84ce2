"""Filters as data, and the final filters, which every question must pass (WikiBigEdit, section 3, step 7).

Filters are an ordered list of reasons with conditions: the first condition that holds drops a row. The final ones apply
whether a template or a model worded the question. A question names the subject, expresses the relation and does not
give the answer away. The reason is the first filter that a question fails. Questions are judged in bulk; checks that do
not depend on a name run once per distinct text.

In an export, failing questions are left out, and a failing update drops its case. Clozes are not questions: only those
that give the answer away are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgedit.store.engine import select
from kgedit.timesteps.relation_words import RelationWords, question_stems
from kgedit.wording.catalogues import ENGLISH, Language

Filter = tuple[str, str]
"""Reason, and the condition in DuckDB's SQL under which a row is dropped."""


class Filtered(NamedTuple):
    """Rows that passed all filters, and the others.

    Attributes:
        kept: Rows that passed.
        dropped: The other rows, with a column ``reason``.
        funnel: Number of dropped rows by reason, in the order of the filters.
        questions: Axis -> results of the final filters for its questions (kgedit.timesteps.filters.count_faults);
            empty if the filters judge no questions.
    """

    kept: pa.Table
    dropped: pa.Table
    funnel: dict[str, int]
    questions: Mapping[str, dict[str, Any]] = MappingProxyType({})


def reason_column(filters: Sequence[Filter]) -> str:
    """SQL of a column ``reason``: the first filter whose condition holds, or null."""
    return "CASE " + " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in filters) + " END AS reason"


def split_by_reason(judged: pa.Table, filters: Sequence[Filter]) -> Filtered:
    """Split rows by their column ``reason``."""
    passed = pc.is_null(judged["reason"])
    dropped = judged.filter(pc.invert(passed))
    counts = {row["values"]: row["counts"] for row in pc.value_counts(dropped["reason"]).to_pylist()}
    funnel = {reason: counts.get(reason, 0) for reason, _ in filters}
    return Filtered(judged.filter(passed).drop_columns(["reason"]), dropped, funnel)


FEWEST_WORDS = 3
MOST_WORDS = 60
"""Inclusive bounds of the number of words in a question; the subject's name counts as one."""

MOST_CHARACTERS = 400
"""Maximum length of a question in characters, counting the subject's name as one."""

SHORTEST_ALIAS = 3
"""In letters; a shorter alias is not searched for in questions, because it matches by chance."""

_STRINGS = pa.list_(pa.string())

QUESTIONS = pa.schema(
    [
        ("fact", pa.string()),
        ("number", pa.int64()),
        ("axis", pa.string()),
        ("relations", _STRINGS),
        ("persona", pa.string()),
        ("question", pa.string()),
    ]
)
"""Questions to judge. fact: a row of FACTS; number: order within a fact, where the first of equal questions passes;
relations: relations that the question must express, two for a two-hop question; persona: null without a persona."""

FACTS = pa.schema(
    [
        ("fact", pa.string()),
        ("subject", pa.string()),
        ("label", pa.string()),
        ("answer", pa.string()),
        ("accepted", _STRINGS),
        ("hidden", _STRINGS),
        ("unlike", _STRINGS),
    ]
)
"""Facts that questions ask for. subject: name that must occur, without article; answer: label of the object; accepted:
its aliases; hidden: label and then aliases of the entity in the middle of two hops; unlike: questions that must not be
repeated. Each of the lists may be null."""

Words = Callable[[str, str | None], frozenset[str]]
"""Stems by which a persona (None means no persona) may express a relation; relations without stems are not checked."""


def letters(text: str) -> str:
    """SQL of a text normalized for comparison: lower case, single spaces, punctuation only if nothing else remains."""
    plain = f"lower(nfc_normalize({text}))"
    return rf"coalesce(nullif(trim(regexp_replace({plain}, '[^\pL\pN]+', ' ', 'g')), ''), trim({plain}))"


def _words(text: str) -> str:
    """SQL of a text in which each Chinese character is a word, because Chinese writes no spaces."""
    return rf"regexp_replace({text}, '(\p{{Han}})', ' \1 ', 'g')"


def gives_away(question: str, answer: str) -> str:
    """SQL: whether a question contains the answer, as whole words and ignoring case."""
    return f"contains({_spaced(question)}, {_spaced(answer)})"


def gives_any_away(text: str, answer: str, aliases: str) -> str:
    """SQL: whether a text contains the answer or one of its aliases, except those that match by chance."""
    return f"len(list_filter({aliases}, lambda alias: {_holds_alias(text)})) > 0 OR {gives_away(text, answer)}"


def beyond_subject(aliases: str, label: str) -> str:
    """SQL of the aliases of an answer without those in the label of its subject, which accept an echo of a question."""
    return f"list_filter({aliases}, lambda alias: NOT ({_holds_alias(label)}))"


def _holds_alias(text: str) -> str:
    return f"length({_spaced('alias')}) >= {SHORTEST_ALIAS} + 2 AND {gives_away(text, 'alias')}"


def _spaced(text: str) -> str:
    return f"(' ' || {letters(_words(text))} || ' ')"


def _says_any(names: str) -> str:
    return f"len(list_filter({names}, lambda name: contains(said, name))) > 0"


REPEATS = "it repeats another question of the case"

SAME_NAME = "another item has the same name"
"""Reason for facts whose subject no hint distinguishes from its namesakes (kgedit.timesteps.labels)."""

FILTERS: tuple[Filter, ...] = (
    ("it is not plain text", "not_plain"),
    ("it does not end in a question mark", "NOT regexp_matches(question, '[?？]$')"),
    ("it asks more than one question", "asks_twice"),
    ("it is too short or too long", "unfit_length"),
    ("the subject is missing", "NOT contains(said, subject_letters) AND NOT contains(lower(question), lower(subject))"),
    ("the relation is not expressed", "unexpressed"),
    ("it gives the answer away", f"contains(said, spaced_answer) OR {_says_any('spaced_aliases')}"),
    (
        "it names the entity in the middle",
        f"len(spaced_middle) > 0 AND (holds_mask OR {_says_any('spaced_middle')})",
    ),
    ("it holds the id of an entity", "holds_id"),
)
"""Reason, and condition over the columns of the query below; REPEATS is applied after them."""

REASONS = (*(reason for reason, _ in FILTERS), REPEATS)


def find_faults(questions: pa.Table, facts: pa.Table, words: Words, *, language: Language = ENGLISH) -> pa.Table:
    """Judge questions by FILTERS.

    Args:
        questions: Table with the schema QUESTIONS.
        facts: Table with the schema FACTS, one row per fact.
        words: Stems that express each relation.
        language: Language of the questions.

    Returns:
        The questions, ordered by fact and number, with a column ``reason``: one of REASONS, null if all filters pass.
    """
    if not questions.num_rows:
        return questions.append_column("reason", pa.nulls(0, pa.string()))
    patterns = select(
        f"SELECT DISTINCT {_REST} AS rest, relations, persona FROM questions JOIN facts USING (fact)",
        questions=questions,
        facts=facts,
    )
    unexpressed = [_is_unexpressed(words, language, **row) for row in patterns.to_pylist()]
    patterns = patterns.append_column("unexpressed", pa.array(unexpressed, pa.bool_()))
    return select(_JUDGED, questions=questions, facts=facts, patterns=patterns)


def count_faults(judged: pa.Table) -> dict[str, dict[str, Any]]:
    """Number of judged and passed questions by axis, and reasons with counts.

    Args:
        judged: Result of find_faults.
    """
    counts: dict[str, Counter[str | None]] = {}
    found = judged.group_by(["axis", "reason"]).aggregate([([], "count_all")])
    for row in found.sort_by([("axis", "ascending"), ("reason", "ascending")]).to_pylist():
        counts.setdefault(row["axis"], Counter())[row["reason"]] = row["count_all"]
    return {
        axis: {"judged": own.total(), "passed": own.pop(None, 0), "failed": dict(own)} for axis, own in counts.items()
    }


def without_namesakes(worded: pa.Table, axis: str) -> tuple[pa.Table, dict[str, dict[str, Any]]]:
    """Rows without those whose subject is ambiguous, and counts of these as by count_faults; none if there are none."""
    clear = worded.filter(pc.invert(worded["ambiguous"]))
    left_out = worded.num_rows - clear.num_rows
    return clear, {axis: {"judged": left_out, "passed": 0, "failed": {SAME_NAME: left_out}}} if left_out else {}


def add_counts(parts: Iterable[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Sums of results of count_faults."""
    sums: dict[str, dict[str, Any]] = {}
    for part in parts:
        for axis, own in part.items():
            added = sums.setdefault(axis, {"judged": 0, "passed": 0, "failed": Counter()})
            added["judged"] += own["judged"]
            added["passed"] += own["passed"]
            added["failed"].update(own["failed"])
    return {axis: own | {"failed": dict(sorted(own["failed"].items()))} for axis, own in sorted(sums.items())}


def _is_unexpressed(words: Words, language: Language, *, rest: str, relations: list[str], persona: str | None) -> bool:
    said = question_stems(rest, language)
    return any(own and not own & said for own in (words(relation, persona) for relation in relations))


_REST = """
    CASE WHEN contains(question, subject) THEN replace(question, subject, 'S')
         ELSE regexp_replace(question, regexp_escape(subject), 'S', 'gi') END
"""
"""SQL of a question without the name of its subject, which may be any text."""


def _aliases(spaced: str) -> str:
    """SQL of names between spaces, without short ones and those that the subject's label contains."""
    return f"list_filter({spaced}, lambda name: length(name) >= {SHORTEST_ALIAS} + 2 AND NOT contains(spaced[3], name))"


_JUDGED = rf"""
    WITH listed AS (
        SELECT fact, subject, answer, coalesce(label, subject) AS label, coalesce(accepted, []) AS accepted,
               coalesce(hidden, []) AS hidden, coalesce(unlike, []) AS unlike
        FROM facts
    ), spaced AS MATERIALIZED (
        SELECT fact, subject, len(accepted) AS aliases, len(hidden) AS names,
               list_transform([subject, answer, label] || accepted || hidden || unlike,
                              lambda text: {_spaced("text")}) AS spaced
        FROM listed
    ), fact AS MATERIALIZED (
        SELECT fact, subject, trim(spaced[1]) AS subject_letters, spaced[2] AS spaced_answer,
               {_aliases("spaced[4:aliases + 3]")} AS spaced_aliases,
               CASE WHEN names > 0
                    THEN list_prepend(spaced[aliases + 4], {_aliases("spaced[aliases + 5:aliases + names + 3]")})
                    ELSE [] END AS spaced_middle,
               spaced[aliases + names + 4:] AS spaced_others
        FROM spaced
    ), pattern AS MATERIALIZED (
        SELECT *, regexp_matches(replace(rest, ' ', ''), '[\p{{C}}\p{{Z}}]')
                      OR regexp_matches(rest, '[{{}}<>\[\]\\`|]|https?:') AS not_plain,
               length(rest) - length(regexp_replace(rest, '[?？]', '', 'g')) > 1 OR regexp_matches(
                   rest, '(?i)\band (also )?(who|whom|whose|what|where|when|which|how|why)\b\W+\w') AS asks_twice,
               len(regexp_split_to_array(trim({_words("rest")}), '\s+')) NOT BETWEEN {FEWEST_WORDS} AND {MOST_WORDS}
                   OR length(rest) > {MOST_CHARACTERS} AS unfit_length,
               regexp_matches(rest, '\b[PQL]\d+\b') AS holds_id, contains(lower(rest), 'masked') AS holds_mask
        FROM patterns
    ), asked AS MATERIALIZED (
        SELECT q.*, f.* EXCLUDE (fact), {_spaced("question")} AS said, {_REST} AS rest
        FROM questions q JOIN fact f USING (fact)
    ), joined AS (
        SELECT a.*, p.* EXCLUDE (rest, relations, persona)
        FROM asked a JOIN pattern p ON a.rest = p.rest AND a.relations = p.relations
                                   AND a.persona IS NOT DISTINCT FROM p.persona
    ), judged AS (
        SELECT *, {reason_column(FILTERS)} FROM joined
    )
    SELECT {", ".join(QUESTIONS.names)},
           CASE WHEN reason IS NULL AND (list_contains(spaced_others, said) OR row_number() OVER (
                         PARTITION BY fact, said, reason IS NULL ORDER BY number) > 1)
                THEN '{REPEATS}' ELSE reason END AS reason
    FROM judged ORDER BY fact, number
"""
"""A clause that contains a question asks twice; "..., and which?" continues the same question.

All names of a fact are normalized by one expression, because DuckDB compiles a pattern with classes of Unicode in 5 ms
wherever it occurs.
"""


def _needed_name(language: Language) -> str:
    """SQL of the subject's name as a question must contain it: without its article, and without inflected words."""
    return "regexp_replace(name, '^the ', '')" if language.is_english else language.what_is_needed("name")


class FilteredQuestions(NamedTuple):
    """Rows with their questions judged.

    Attributes:
        rows: With a column ``fault``: the final filter that the row's own question fails, null where it passes.
        counts: From kgedit.timesteps.filters.count_faults.
    """

    rows: pa.Table
    counts: dict[str, dict[str, Any]]


def faults_as_filters(which: str = "") -> tuple[Filter, ...]:
    """The final filters over a column ``fault``.

    Args:
        which: Prefix of the reasons, to show which question failed.
    """
    return tuple((f"{which}{reason}", f"fault = '{reason}'") for reason in REASONS)


def judge_cases(worded: pa.Table, words: RelationWords) -> FilteredQuestions:
    """Judge the update question, the rephrasings and the persona's question of cases.

    Args:
        worded: Columns case_id, subject_label, property, object_label, object_aliases, name, question, rephrase,
            rephrases, clozes, persona and personas, in any order of rows.
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
    judged = find_faults(asked, _facts(worded, "case_id", words), words, language=words.language)
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
        """,
        worded=worded,
        judged=judged,
    )
    return FilteredQuestions(rows, count_faults(judged))


def judge_probes(probes: pa.Table, words: RelationWords, *, axis: str = "locality") -> FilteredQuestions:
    """Judge questions about single facts.

    Args:
        probes: Columns subject_label, property, object_label, object_aliases, name and question.
        words: Stems that express each relation.
        axis: Axis that the questions are counted under.

    Returns:
        The probes, in their order.
    """
    numbered = _numbered(probes)
    asked = select(
        "SELECT fact, 0::BIGINT AS number, $axis AS axis, [property] AS relations, NULL::VARCHAR AS persona, "
        "question FROM numbered",
        {"axis": axis},
        numbered=numbered,
    ).cast(QUESTIONS)
    judged = find_faults(asked, _facts(numbered, "fact", words), words, language=words.language)
    return FilteredQuestions(_with_faults(numbered, judged), count_faults(judged))


def keep_probes(probes: pa.Table, words: RelationWords) -> Filtered:
    """Split locality questions into those that pass and the others; see judge_probes."""
    judged = judge_probes(probes, words)
    parts = split_by_reason(judged.rows.rename_columns({"fault": "reason"}), faults_as_filters())
    return parts._replace(questions=judged.counts)


def judge_two_hops(nested: pa.Table, words: RelationWords) -> FilteredQuestions:
    """Judge two-hop questions and their rephrasings.

    Args:
        nested: Columns name and start_label (of the first subject), first_property, first_label and first_aliases (of
            the entity in the middle), property, object_label, object_aliases, question and rephrases; name is null if
            there is no such case, and nothing is judged.
        words: Stems that express each relation.

    Returns:
        The rows, in their order; rephrases excludes failing texts.
    """
    hidden = "list_prepend(first_label, coalesce(first_aliases, []))"
    return _judge_nested(nested, words, relations="[first_property, property]", hidden=hidden)


def judge_chains(nested: pa.Table, words: RelationWords) -> FilteredQuestions:
    """Judge questions about chains of facts, and their rephrasings.

    Args:
        nested: Columns name and start_label (of the first subject), relations (of all hops), hidden (labels of the
            entities in the middle, then their aliases), object_label, object_aliases, question and rephrases.
        words: Stems that express each relation.

    Returns:
        The rows, in their order; rephrases excludes failing texts.
    """
    return _judge_nested(nested, words, relations="relations", hidden="hidden")


def _judge_nested(nested: pa.Table, words: RelationWords, *, relations: str, hidden: str) -> FilteredQuestions:
    numbered = _numbered(nested)
    asked = select(
        f"""
        SELECT fact, 0::BIGINT AS number, 'mhop' AS axis, {relations} AS relations,
               NULL::VARCHAR AS persona, question FROM numbered WHERE question IS NOT NULL
        UNION ALL
        SELECT fact, generate_subscripts(rephrases, 1), 'mhop_rephrase', {relations}, NULL,
               unnest(rephrases) FROM numbered WHERE question IS NOT NULL
        """,
        numbered=numbered,
    ).cast(QUESTIONS)
    facts = _facts(numbered, "fact", words, label="start_label", hidden=hidden)
    judged = find_faults(asked, facts, words, language=words.language)
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


def _facts(
    rows: pa.Table, key: str, words: RelationWords, *, label: str = "subject_label", hidden: str = "[]"
) -> pa.Table:
    return select(
        f"SELECT {key} AS fact, {_needed_name(words.language)} AS subject, {label} AS label, object_label AS answer, "
        f"object_aliases AS accepted, {hidden} AS hidden, [] AS unlike FROM rows",
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
