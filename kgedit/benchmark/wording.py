"""Questions from facts, in bulk: templates are joined to facts by property."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kgedit.benchmark.funnel import Filter, Filtered, reason_column, split_by_reason
from kgedit.prompts.personas import persona_questions, persona_table
from kgedit.prompts.templates import TEMPLATES, WORDINGS, generic_template, template_table
from kgedit.store.engine import select


def choose_templates(facts: pa.Table, *, catalogue: Path | None) -> pa.Table:
    """A template for every property of some facts: the catalogue's own, or its generic one.

    Args:
        facts: Columns property and property_label.
        catalogue: The catalogue; None for the shipped one.

    Returns:
        A table with the schema TEMPLATES, ordered by property.
    """
    generic = generic_template(catalogue)
    parameters = {wording: getattr(generic, wording) for wording in (*WORDINGS, "template")}
    wordings = ", ".join(f"replace(${wording}, '{{property}}', max(property_label))" for wording in WORDINGS)
    return select(
        f"""
        WITH needed AS (
            SELECT property, {wordings}, $template FROM facts ANTI JOIN own USING (property) GROUP BY property
        )
        SELECT * FROM (SELECT * FROM own UNION ALL SELECT * FROM needed) ORDER BY property
        """,  # noqa: S608 - our own names
        parameters,
        facts=facts.select(["property", "property_label"]),
        own=template_table(catalogue),
    ).cast(TEMPLATES)


def say(wording: str, label: str, *, template: str = "t") -> str:
    """SQL: a template's wording about a label.

    Args:
        wording: One of WORDINGS.
        label: SQL of the text that stands for {subject}.
        template: Alias of the templates' table.
    """
    return f"replace({template}.{wording}, '{{subject}}', {label})"


def word_facts(facts: pa.Table, templates: pa.Table) -> pa.Table:
    """Facts, in their order, with question, rephrase, cloze and the template's name.

    Args:
        facts: Columns property and subject_label at least.
        templates: From choose_templates.
    """
    numbered = facts.append_column("number", pa.array(range(facts.num_rows), pa.int64()))
    wordings = ", ".join(f"{say(name, 'subject_label')} AS {name}" for name in ("question", "rephrase", "cloze"))
    return select(
        f"SELECT f.* EXCLUDE (number), {wordings}, template "  # noqa: S608 - our own names
        "FROM facts f JOIN templates t USING (property) ORDER BY number",
        facts=numbered,
        templates=templates,
    )


def gives_away(question: str, answer: str) -> str:
    """SQL: whether a question holds the answer, as whole words and whatever its case."""
    asked, wanted = (rf"trim(regexp_replace(lower({text}), '[^\pL\pN]+', ' ', 'g'))" for text in (question, answer))
    return f"contains(' ' || {asked} || ' ', ' ' || {wanted} || ' ')"


FILTERS: tuple[Filter, ...] = (("the question gives the answer away", gives_away("question", "object_label")),)
"""The last filter of WikiBigEdit (section 3, step 7); other questions of a case that do so are left out."""


def word_cases(cases: pa.Table, templates: pa.Table, *, seed: int, personas: Path | None) -> Filtered:
    """Cases with every question about their own fact.

    Args:
        cases: From make_cases.
        templates: From choose_templates.
        seed: Chooses personas.
        personas: Folder of persona catalogues; None for the shipped one.

    Returns:
        The cases with question, rephrase, cloze, template, persona and personas (the framed question), ordered by
        case_id. rephrase and personas are null where they would give the answer away.
    """
    worded = word_facts(cases, templates)
    framed = persona_questions(worded["question"], worded["case_id"], seed=seed, personas=persona_table(personas))
    worded = worded.append_column("persona", framed["persona"]).append_column("personas", framed["question"])
    shown = ", ".join(
        f"CASE WHEN {gives_away(name, 'object_label')} THEN NULL ELSE {name} END AS {name}"
        for name in ("rephrase", "personas")
    )
    judged = select(
        f"SELECT * REPLACE ({shown}), {reason_column(FILTERS)} FROM worded ORDER BY case_id",  # noqa: S608 - our own names
        worded=worded,
    )
    return split_by_reason(judged, FILTERS)


def word_probes(probes: pa.Table, templates: pa.Table) -> pa.Table:
    """Facts, in their order, with their question; without those whose question gives the answer away."""
    worded = word_facts(probes, templates)
    kept = f"NOT {gives_away('question', 'object_label')}"
    numbered = worded.append_column("number", pa.array(range(worded.num_rows), pa.int64()))
    return select(f"SELECT * EXCLUDE (number) FROM numbered WHERE {kept} ORDER BY number", numbered=numbered)  # noqa: S608
