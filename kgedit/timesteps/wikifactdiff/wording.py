"""Texts of values and questions of updates: labels, formatted literals, and the shipped templates."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.timesteps.final_filters import gives_away
from kgedit.timesteps.subjects import describe_subjects
from kgedit.timesteps.wikifactdiff.values import prepare_wording_of_literals
from kgedit.timesteps.wording import begun, choose_templates
from kgedit.wikidata.ids import UNIT_SYMBOL
from kgedit.wording.dates import date_templates

BLANK = "____"
"""Placeholder of the answer in a prompt of WikiFactDiff."""


DRAWN_CLOZE = (
    "t.clozes[1 + (md5_number_lower(concat_ws('|', $seed, 'cloze', f.subject, f.property, f.neighbour, f.object)) "
    "% len(t.clozes))::BIGINT]"
)
"""SQL of one of a template's clozes, drawn for each neighbour f of an update (WikiFactDiff, section 5)."""


def word_values(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``worded_value``: label, description and aliases of each term in ``classified``; null without a label."""
    prepare_wording_of_literals(workspace)
    workspace.execute(_UNITS)
    workspace.execute(
        """
        CREATE TABLE worded_value AS
        WITH one AS (
            SELECT term, any_value(object) AS object, any_value(value_type) AS value_type, any_value(value) AS value,
                   any_value(unit) AS unit, any_value(precision) AS precision
            FROM classified GROUP BY term
        )
        SELECT term, CASE WHEN object IS NULL THEN say_literal(value_type, value, precision, unit_name)
                          ELSE label END AS label,
               CASE WHEN object IS NULL THEN name_literal(value_type, precision) ELSE description END AS description,
               CASE WHEN object IS NULL THEN list_filter(
                        spell_literal(value_type, value, precision, unit_name),
                        lambda x: x <> say_literal(value_type, value, precision, unit_name))
                    ELSE coalesce(aliases, []) END AS aliases
        FROM one LEFT JOIN known ON known.id = object LEFT JOIN unit USING (unit)
        """
    )


_UNITS = f"""
    CREATE TABLE unit AS
    WITH used AS (
        SELECT unit FROM new_facts WHERE unit IS NOT NULL
        UNION SELECT unit FROM old_facts WHERE unit IS NOT NULL
        UNION SELECT unit FROM classified WHERE unit IS NOT NULL
    ), symbol AS (
        SELECT subject AS unit, arg_min(value, (side, language <> 'en', value)) AS symbol
        FROM (SELECT 1 AS side, * FROM new_claims UNION ALL SELECT 2 AS side, * FROM old_claims)
        WHERE property = '{UNIT_SYMBOL}' AND snak = 'value' AND rank <> 'deprecated' AND subject IN (FROM used)
        GROUP BY subject
    )
    SELECT unit, coalesce(label, symbol) AS unit_name
    FROM used LEFT JOIN known ON id = unit LEFT JOIN symbol USING (unit)
"""  # noqa: S608 - our own names
"""Name of a unit: its label, or its symbol if it has no label."""


def prepare_templates(
    workspace: duckdb.DuckDBPyConnection, catalogue: Path | None, *, as_of: date | None = None
) -> pa.Table:
    """Create ``template``: property and its wordings with {subject}, for every property in table ``asked_property``.

    Args:
        workspace: Workspace with the table ``asked_property``.
        catalogue: Catalogue of question templates; None means the shipped one.
        as_of: Day that the wordings name; None means that they name none.

    Returns:
        The templates of all properties, without a day.
    """
    asked = workspace.sql(
        "SELECT property, coalesce(label, property) AS property_label "
        "FROM asked_property LEFT JOIN known ON id = property"
    ).to_arrow_table()
    templates = choose_templates(asked, catalogue=catalogue)
    workspace.register("chosen_templates", templates if as_of is None else date_templates(templates, as_of))
    workspace.execute("CREATE TABLE template AS FROM chosen_templates SEMI JOIN asked_property USING (property)")
    workspace.unregister("chosen_templates")
    workspace.execute(f"CREATE MACRO say(wording, name) AS {begun('wording', 'name')}")
    workspace.execute("CREATE MACRO say_all(wordings, name) AS list_transform(wordings, lambda w: say(w, name))")
    return templates


def prepare_subjects(workspace: duckdb.DuckDBPyConnection, facts: str) -> None:
    """Create ``named``: id, label, description, name and subject_class of the subjects of some facts.

    The hint of a name is left out if it would give an answer away.

    Args:
        workspace: Workspace with ``known``.
        facts: SQL with the columns id and answer.
    """
    workspace.execute(f"CREATE TABLE asked_subject AS {facts}")
    labels = workspace.sql(
        "SELECT id AS subject, label AS subject_label FROM known "
        "WHERE id IN (SELECT id FROM asked_subject) AND label IS NOT NULL"
    ).to_arrow_table()
    workspace.register("described", describe_subjects(workspace, labels))
    workspace.execute(
        f"""
        CREATE TABLE named AS
        SELECT k.id, k.label, k.description, subject_class,
               CASE WHEN hinted_name IS NULL OR d.subject IN (
                        SELECT a.id FROM asked_subject a JOIN described h ON h.subject = a.id
                        WHERE {gives_away("h.hinted_name", "a.answer")})
                    THEN name ELSE hinted_name END AS name
        FROM described d JOIN known k ON k.id = d.subject
        """  # noqa: S608 - our own names
    )
    workspace.unregister("described")
