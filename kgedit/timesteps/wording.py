"""Bulk wording of facts as questions: templates are joined to facts by property and by the class of the subject.

Templates are written in the singular. A verb agrees with {subject} if it directly precedes it ("is {subject}") or
directly follows it in its own clause ("{subject} plays", "the league in which {subject} plays"), but not after a
preposition ("the coach of {subject} is").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.store.engine import select
from kgedit.store.parts import keep_in_parts, of_part
from kgedit.store.window import Window
from kgedit.timesteps.filters import (
    SAME_NAME,
    Filter,
    Filtered,
    add_counts,
    beyond_subject,
    faults_as_filters,
    gives_any_away,
    judge_cases,
    keep_probes,
    reason_column,
    split_by_reason,
    without_namesakes,
)
from kgedit.timesteps.labels import SUBJECTS, described_parts, is_id
from kgedit.timesteps.profiles import PERSONA_STYLES
from kgedit.timesteps.relation_words import RelationWords
from kgedit.wording.catalogues import ENGLISH, Language, unmarked
from kgedit.wording.dates import date_text
from kgedit.wording.grammar import SUBJECT_CLASSES
from kgedit.wording.names import name_rules, with_indefinite_article
from kgedit.wording.personas import persona_questions, persona_table, reworded, shipped_personas, voices
from kgedit.wording.templates import (
    ANY_CLASS,
    TEMPLATES,
    generic_row,
    read_templates,
    template_table,
)


def choose_templates(facts: pa.Table, *, catalogue: Path | None) -> pa.Table:
    """Choose a template for each property and each class of subjects: the catalogue's entry, or its generic one.

    Args:
        facts: Columns property and property_label.
        catalogue: The catalogue; None means the shipped one.

    Returns:
        A table with the schema TEMPLATES, ordered by property and class; each property has a row for each class. A
        catalogue without a generic entry gives no rows for other properties.
    """
    own = template_table(catalogue)
    needed = select(
        "SELECT property, max(property_label) AS label FROM facts ANTI JOIN own USING (property) "
        "GROUP BY property ORDER BY property",
        facts=facts.select(["property", "property_label"]),
        own=own,
    ).to_pylist()
    read = read_templates(catalogue)
    if read.generic is None:
        return _for_each_class(own)
    generic = [generic_row(read, row["property"], row["label"]) for row in needed]
    return _for_each_class(pa.concat_tables([own, pa.Table.from_pylist(generic, schema=TEMPLATES)]))


def _for_each_class(templates: pa.Table) -> pa.Table:
    classes = ", ".join(f"('{name}')" for name in (ANY_CLASS, *SUBJECT_CLASSES))
    others = ", ".join(
        f"coalesce(v.{name}, o.{name}) AS {name}"
        for name in TEMPLATES.names
        if name not in ("property", "subject_class")
    )
    return (
        select(
            f"""
        WITH class(subject_class) AS (VALUES {classes})
        SELECT o.property, c.subject_class, {others}
        FROM templates o CROSS JOIN class c
        LEFT JOIN templates v ON v.property = o.property AND v.subject_class = c.subject_class
        WHERE o.subject_class = '{ANY_CLASS}' ORDER BY o.property, c.subject_class
        """,
            templates=templates,
        )
        .select(TEMPLATES.names)
        .cast(TEMPLATES)
    )


def say(wording: str, name: str, *, template: str = "t", language: Language = ENGLISH) -> str:
    """SQL of a template's wording about a subject; capitalizes "The" if the name with its article comes first.

    Args:
        wording: Column of TEMPLATES with one wording.
        name: SQL of the text that replaces {subject}.
        template: Alias of the templates' table.
        language: Language of the templates.
    """
    return begun(f"{template}.{wording}", name, language=language)


def say_all(wordings: str, name: str, *, template: str = "t", language: Language = ENGLISH) -> str:
    """SQL, as by `say`, of a column of TEMPLATES with a list of wordings."""
    return f"list_transform({template}.{wordings}, lambda w: {begun('w', name, language=language)})"


def begun(wording: str, name: str, *, language: Language = ENGLISH) -> str:
    """SQL of a wording about a name: verbs agree with it, and its article is capitalized if it comes first."""
    return _filled(agreed(wording, name) if language.is_english else wording, name, language)


def begun_all(wordings: str, name: str, *, language: Language = ENGLISH) -> str:
    """SQL, as by `begun`, of a list of texts; of many, each pattern is compiled once."""
    agreeing = agreed_all(wordings, name) if language.is_english else wordings
    return f"list_transform({agreeing}, lambda w: {_filled('w', name, language)})"


def _filled(wording: str, name: str, language: Language) -> str:
    """SQL of a wording that agrees with a name, with the name in it."""
    filled = f"replace({wording}, '{{subject}}', {name})"
    return f"regexp_replace({filled}, '^the ', 'The ')" if language.is_english else language.joined(filled)


def usable_hint(names: str, answer: str, aliases: str) -> str:
    """SQL: the first of a subject's names with a hint that contains no accepted answer; null without one."""
    return f"list_filter({names}, lambda hinted: NOT ({gives_any_away('hinted', answer, aliases)}))[1]"


def word_facts(facts: pa.Table, templates: pa.Table, subjects: pa.Table, *, language: Language = ENGLISH) -> pa.Table:
    """Add wordings to facts; the order is kept. Facts without a template are left out.

    Args:
        facts: At least the columns subject, subject_label, property, property_label and object_label; and
            object_aliases, where there are any.
        templates: From choose_templates.
        subjects: From kgedit.timesteps.labels.describe_subjects.
        language: Language of the templates.

    Returns:
        The facts with question, rephrase, cloze, rephrases, clozes, the template's name, its phrase and answer_type,
        name (of the subject, as used in sentences), subject_class and ambiguous (another item has the subject's name,
        and no hint that distinguishes them is free of the answer); object_aliases without those in the subject's label.
    """
    numbered = facts.append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    # One expression for all wordings: DuckDB compiles a pattern wherever it occurs, and plural verbs need twenty.
    wordings = "([t.phrase, t.question, t.rephrase, t.cloze] || t.rephrases || t.clozes)"
    agreeing = agreed_all(wordings, "name") if language.is_english else wordings
    phrase = "agreed_[1]" if language.is_english else unmarked("agreed_[1]")
    aliases = ", []::VARCHAR[] AS object_aliases"
    if "object_aliases" in facts.column_names:
        aliases = f"REPLACE ({beyond_subject('object_aliases', 'subject_label')} AS object_aliases)"
    return select(
        f"""
        WITH accepting AS (
            SELECT * {aliases} FROM facts
        ), hinted AS (
            SELECT f.*, s.subject_class, s.name, s.shared,
                   {usable_hint("s.hinted_names", "f.object_label", "f.object_aliases")} AS hinted_name
            FROM accepting f LEFT JOIN subjects s USING (subject)
        ), named AS (
            SELECT * EXCLUDE (shared, hinted_name) REPLACE (
                       coalesce(subject_class, '{ANY_CLASS}') AS subject_class,
                       coalesce(hinted_name, name, trim(subject_label)) AS name),
                   coalesce(shared AND hinted_name IS NULL, false) AS ambiguous
            FROM hinted
        ), agreed AS (
            SELECT n.* REPLACE (
                       CASE WHEN {is_id("n.property_label")} THEN coalesce(t.label, n.property_label)
                            ELSE n.property_label END AS property_label),
                   t.template, t.answer_type, len(t.rephrases) AS rephrases_, {agreeing} AS agreed_
            FROM named n JOIN templates t USING (property, subject_class)
        ), said AS (
            SELECT *, list_transform(agreed_[2:], lambda w: {_filled("w", "name", language)}) AS said_ FROM agreed
        )
        SELECT * EXCLUDE (number, template, answer_type, rephrases_, agreed_, said_),
               said_[1] AS question, said_[2] AS rephrase, said_[3] AS cloze,
               said_[4:3 + rephrases_] AS rephrases, said_[4 + rephrases_:] AS clozes,
               template, {phrase} AS phrase, answer_type
        FROM said ORDER BY number
        """,
        facts=numbered,
        templates=templates,
        subjects=subjects,
    )


FILTERS: tuple[Filter, ...] = (
    ("no label of the property", is_id("property_label")),
    (SAME_NAME, "ambiguous"),
    *faults_as_filters("update question: "),
)
"""A case is dropped for the first filter that matches; its other questions that fail a final filter are left out."""


_FACTS_AT_ONCE = 8_000
"""Facts that are worded at once, about 50 MB for cases; the questions about one do not depend on other facts."""


def named_parts(window: Window, facts: str, *, language: Language) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield facts in parts, at least one, each with its own subjects; otherwise every part would read all subjects.

    Args:
        window: Window with a table of facts, of which each has another case_id.
        facts: Name of the table.
        language: Language of the labels.

    Yields:
        Facts ordered by case_id, and their subjects (kgedit.timesteps.labels.describe_subjects).
    """
    for names in described_parts(window.connection, facts, language=language):
        window.add("subject_name", names)
    window.run(f"CREATE TABLE fact_order AS SELECT case_id FROM {facts} ORDER BY case_id")
    keep_in_parts(
        window.connection,
        "named_fact",
        f"""
        SELECT f.*, {", ".join(f"{name} AS own_{name}" for name in SUBJECTS.names)},
               (o.rowid // {_FACTS_AT_ONCE})::INTEGER AS part
        FROM {facts} f JOIN fact_order o USING (case_id) JOIN subject_name USING (subject)
        """,
    )
    window.drop("subject_name", "fact_order")
    parts = window.connection.execute("SELECT coalesce(max(part), 0) + 1 FROM named_fact").fetchall()[0][0]
    for part in range(parts):
        rows = window.select(f"{of_part('named_fact', part)} ORDER BY case_id")
        own = [f"own_{name}" for name in SUBJECTS.names]
        subjects = rows.select(own).rename_columns(SUBJECTS.names)
        yield rows.drop_columns(own), select("SELECT DISTINCT ON (subject) * FROM subjects", subjects=subjects)
    window.drop("named_fact")


def word_cases(
    cases: pa.Table,
    templates: pa.Table,
    subjects: pa.Table,
    words: RelationWords,
    *,
    seed: int,
    personas: Path | None,
    persona_style: str = PERSONA_STYLES[0],
    as_of: date | None = None,
) -> Filtered:
    """Add to cases every question about their own fact.

    Args:
        cases: Some thousand of those from make_cases, ordered by case_id.
        templates: From choose_templates.
        subjects: From kgedit.timesteps.labels.describe_subjects.
        words: Stems that express each relation (kgedit.timesteps.relation_words).
        seed: Seed of the choice of personas.
        personas: Folder of persona catalogues; None means the shipped one.
        persona_style: One of PERSONA_STYLES.
        as_of: Day that the templates name; None means that they name none.

    Returns:
        The cases with the columns of word_facts, statement (the update as a sentence), persona and personas (the
        question in its voice), ordered by case_id, without questions that fail a final filter
        (kgedit.timesteps.filters.judge_cases).
    """
    worded = word_facts(cases, templates, subjects, language=words.language)
    worded = worded.append_column("statement", _statements(worded, words.language))
    worded = persona_voiced(
        worded, seed=seed, personas=personas, style=persona_style, as_of=as_of, language=words.language
    )
    judged = judge_cases(worded, words)
    reasoned = f"SELECT * EXCLUDE (fault), {reason_column(FILTERS)} FROM judged ORDER BY case_id"
    return split_by_reason(select(reasoned, judged=judged.rows), FILTERS)._replace(questions=judged.counts)


_BEFORE_ARTICLES = re.compile(
    r"\b(is|was|are|were|of|in|into|at|by|for|with|to|on|from|after|as"
    r"|follows|replaced|represents|operates|uses|contains|carries|crosses|orbits)$"
)
"""Ends of a cloze after which a name keeps its article; after a noun ("the sports team") it has none."""

_BEFORE_TITLES = re.compile(r"\b(position|office|title|post|role|function|rank|degree|status) of$")
"""Ends of a cloze after which a title has no article: "holds the position of President of Ukraine"."""

_BEFORE_KINDS = re.compile(r"\b(classed|works) as$")
"""Ends of a cloze after which a kind of thing or person needs "a": "works as a politician"."""

_CLASS_OF_ANSWER = {"person": "person", "work": "work"}
"""Types of answers whose names take no article even if they look like a common noun: Frank Ocean is not an ocean."""


def _statements(worded: pa.Table, language: Language) -> pa.Array:
    """The update as a sentence: the cloze, the answer with its article, and one full stop."""
    rows = worded.select(["cloze", "object_label", "answer_type"]).to_pylist()
    if language.is_english:
        sentences = [
            f"{row['cloze']} {_answer_after(row['cloze'], row['object_label'], row['answer_type'])}" for row in rows
        ]
    else:
        sentences = [language.join(f"{row['cloze']}{language.space}{_named_answer(row, language)}") for row in rows]
    return pa.array([_ended(sentence, language) for sentence in sentences], pa.string())


def _answer_after(cloze: str, label: str, answer_type: str) -> str:
    if _BEFORE_KINDS.search(cloze):
        return with_indefinite_article(label)
    if not _BEFORE_ARTICLES.search(cloze) or _BEFORE_TITLES.search(cloze):
        return label
    return name_rules().as_answer(label, subject_class=_CLASS_OF_ANSWER.get(answer_type, ""))


def _named_answer(row: dict[str, str], language: Language) -> str:
    kind = _CLASS_OF_ANSWER.get(row["answer_type"], "")
    return language.in_sentence(row["object_label"], subject_class=kind)


def _ended(sentence: str, language: Language) -> str:
    """The sentence with one full stop; a title that ends in a question mark gets none."""
    stop = language.full_stop
    return sentence if sentence.endswith(("?", "!", "？", "！")) else sentence.rstrip(stop) + stop


def persona_voiced(
    worded: pa.Table,
    *,
    seed: int,
    personas: Path | None,
    style: str,
    as_of: date | None = None,
    language: Language = ENGLISH,
) -> pa.Table:
    """Add to cases their question as a persona asks it.

    Args:
        worded: Columns case_id, question, phrase, answer_type and name, as in the result of word_facts.
        seed: Seed of the choice of personas.
        personas: Folder of persona catalogues; None means the shipped one of the language.
        style: One of PERSONA_STYLES.
        as_of: Day that the questions name; None means that they name none.
        language: Language of the questions and personas.

    Returns:
        The cases, in their order, with persona and personas (the question in its voice).

    Raises:
        TimestepError: if the style is unknown, or the catalogues break their contract.
    """
    if style not in PERSONA_STYLES:
        raise TimestepError(f"There is no persona style '{style}'. Choose one of {', '.join(PERSONA_STYLES)}.")
    personas = personas or shipped_personas(language.code)
    if style == "framed":
        asked = persona_questions(worded["question"], worded["case_id"], seed=seed, personas=persona_table(personas))
    else:
        asked = reworded(worded, seed=seed, chosen=voices(personas), language=language)
        if as_of is not None:
            dated = pa.array([date_text(text, as_of) for text in asked["question"].to_pylist()], pa.string())
            asked = asked.set_column(asked.column_names.index("question"), "question", dated)
    return worded.append_column("persona", asked["persona"]).append_column("personas", asked["question"])


def word_probes(probes: pa.Table, templates: pa.Table, subjects: pa.Table, words: RelationWords) -> Filtered:
    """Add questions to facts, in order, without facts that share their subject's name or fail a final filter."""
    worded, ambiguous = without_namesakes(word_facts(probes, templates, subjects, language=words.language), "locality")
    kept = keep_probes(worded, words)
    return kept._replace(questions=add_counts([dict(kept.questions), ambiguous]))


_VERBS = (("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"))
_CLAUSE = r"(^|, |\b(?:where|which|that|whom|what|why|how) )\{subject\} "
_REGULAR = (
    (_CLAUSE + r"([a-z]{2,})ies\b", r"\1{subject} \2y"),
    (_CLAUSE + r"([a-z]+(?:sh|ch|ss|x|go))es\b", r"\1{subject} \2"),
    (_CLAUSE + r"([a-z]+[b-rt-z]|[a-z]+e)s\b", r"\1{subject} \2"),
    (r"\bits\b", "their"),
)


def agreed(wording: str, name: str) -> str:
    """SQL of a template's wording whose verbs agree with a name.

    Args:
        wording: SQL of a text with {subject}.
        name: SQL of the text that replaces {subject}, as made by kgedit.wording.names.
    """
    return f"CASE WHEN {_is_plural(name)} THEN {_in_plural(wording)} ELSE {wording} END"


def agreed_all(wordings: str, name: str) -> str:
    """SQL, as by `agreed`, of a list of texts."""
    in_plural = f"list_transform({wordings}, lambda w: {_in_plural('w')})"
    return f"CASE WHEN {_is_plural(name)} THEN {in_plural} ELSE {wordings} END"


def _is_plural(name: str) -> str:
    rules = name_rules()
    return f"regexp_matches({name}, {_quoted(rules.plural)}) AND NOT regexp_matches({name}, {_quoted(rules.singular)})"


def _in_plural(wording: str) -> str:
    for singular, plural in _VERBS:
        wording = _replaced(wording, rf"^{singular.capitalize()} \{{subject\}}", f"{plural.capitalize()} {{subject}}")
        wording = _replaced(wording, rf"\b{singular} \{{subject\}}", f"{plural} {{subject}}")
        wording = _replaced(wording, rf"{_CLAUSE}{singular}\b", rf"\1{{subject}} {plural}")
    for pattern, replacement in _REGULAR:
        wording = _replaced(wording, pattern, replacement)
    return wording


def _replaced(wording: str, pattern: str, replacement: str) -> str:
    return f"regexp_replace({wording}, {_quoted(pattern)}, {_quoted(replacement)}, 'g')"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
