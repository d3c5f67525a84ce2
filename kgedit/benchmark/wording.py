"""Questions from facts, in bulk: templates are joined to facts by property."""

from __future__ import annotations

from pathlib import Path

import duckdb

from kgedit.benchmark.changes import read_table
from kgedit.prompts.personas import persona_questions, persona_table
from kgedit.prompts.templates import WORDINGS, generic_template, template_table


def prepare_templates(workspace: duckdb.DuckDBPyConnection, catalogue: Path | None) -> None:
    """Table ``templates`` with a row for every property of the newer snapshot's facts, or a generic one.

    Needs the tables facts, locality_facts and known_facts.
    """
    generic = generic_template(catalogue)
    workspace.register("own_templates", template_table(catalogue))
    workspace.execute(
        f"""
        CREATE TABLE templates AS
        SELECT * FROM own_templates
        UNION ALL
        SELECT property, {", ".join(["replace(?, '{property}', any_value(property_label))"] * len(WORDINGS))}, ?
        FROM (SELECT property, property_label FROM facts UNION SELECT property, property_label FROM known_facts)
        WHERE property NOT IN (SELECT property FROM own_templates)
        GROUP BY property
        """,  # noqa: S608 - our own names and numbers
        [*(getattr(generic, wording) for wording in WORDINGS), generic.template],
    )
    workspace.unregister("own_templates")
    for wording in WORDINGS:
        workspace.execute(f"CREATE MACRO say_{wording}(t, label) AS replace(t.{wording}, '{{subject}}', label)")


def word_cases(workspace: duckdb.DuckDBPyConnection, *, seed: int, personas: Path | None) -> None:
    """Table ``worded``: the facts with question, rephrase, cloze, persona and its question."""
    workspace.execute(
        """
        CREATE TABLE questions AS
        SELECT f.*, say_question(t, subject_label) AS question, say_rephrase(t, subject_label) AS rephrase,
               say_cloze(t, subject_label) AS cloze, t.template
        FROM facts f JOIN templates t USING (property) ORDER BY case_id
        """
    )
    asked = read_table(workspace, "SELECT case_id, question FROM questions ORDER BY case_id")
    framed = persona_questions(asked["question"], asked["case_id"], seed=seed, personas=persona_table(personas))
    framed = framed.rename_columns(["persona", "personas"]).append_column("case_id", asked["case_id"])
    workspace.register("framed", framed)
    workspace.execute(
        """
        CREATE TABLE worded AS
        SELECT *, contains(lower(question), lower(object_label)) AS answer_in_question
        FROM questions JOIN framed USING (case_id)
        """
    )
    workspace.unregister("framed")
