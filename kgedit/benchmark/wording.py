"""Questions from facts, in bulk: templates are joined to facts by property."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kgedit.prompts.personas import persona_questions, persona_table
from kgedit.prompts.templates import TEMPLATES, WORDINGS, generic_template, template_table
from kgedit.store.engine import select


def choose_templates(facts: Sequence[pa.Table], *, catalogue: Path | None) -> pa.Table:
    """A template for every property of some facts: the catalogue's own, or its generic one.

    Args:
        facts: Tables with columns property and property_label.
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
        facts=pa.concat_tables([table.select(["property", "property_label"]) for table in facts]),
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


def word_cases(cases: pa.Table, templates: pa.Table, *, seed: int, personas: Path | None) -> pa.Table:
    """Cases with every question about their own fact.

    Args:
        cases: From make_cases.
        templates: From choose_templates.
        seed: Chooses personas.
        personas: Folder of persona catalogues; None for the shipped one.

    Returns:
        The cases with question, rephrase, cloze, template, persona, personas (the framed question) and
        answer_in_question.
    """
    worded = word_facts(cases, templates)
    framed = persona_questions(worded["question"], worded["case_id"], seed=seed, personas=persona_table(personas))
    worded = worded.append_column("persona", framed["persona"]).append_column("personas", framed["question"])
    return select(
        "SELECT *, contains(lower(question), lower(object_label)) AS answer_in_question FROM worded ORDER BY case_id",
        worded=worded,
    )
