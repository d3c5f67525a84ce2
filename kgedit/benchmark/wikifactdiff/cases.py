"""The updates that today's editing methods can take, as the cases that every timestep has, and what is asked beside.

A case is a ReplaceObject (its obsolete value is the old answer), or an AddRelation or AddEntity with one new value.
Its locality probe is the nearest neighbour's triple, as far as its object is none of the update's own.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from kgedit.benchmark.wikifactdiff.workspace import read_table
from kgedit.benchmark.wording import persona_voiced


def make_cases(
    workspace: duckdb.DuckDBPyConnection, *, known_facts: int, seed: int, personas: Path | None, persona_style: str
) -> None:
    """Tables ``cases``, ``locality``, ``two_hops`` (without rows) and ``known_facts``.

    Args:
        workspace: With updates, objects and neighbours.
        known_facts: Most facts of the older snapshot to write questions for.
        seed: Chooses personas.
        personas: Folder of persona catalogues; None for the shipped ones.
        persona_style: One of kgedit.benchmark.wording.PERSONA_STYLES.
    """
    workspace.execute(_UNFRAMED)
    asked = read_table(workspace, "SELECT case_id, question, phrase, answer, name FROM unframed ORDER BY case_id")
    framed = persona_voiced(asked, seed=seed, personas=personas, style=persona_style)
    framed = framed.rename_columns(["persona", "personas"]).append_column("case_id", asked["case_id"])
    workspace.register("framed", framed)
    workspace.execute("CREATE TABLE cases AS FROM unframed JOIN framed USING (case_id)")
    workspace.unregister("framed")
    workspace.execute(_LOCALITY)
    workspace.execute("CREATE TABLE two_hops AS SELECT case_id FROM cases WHERE false")
    workspace.execute(_KNOWN_FACTS, {"limit": known_facts})


_UNFRAMED = """
    CREATE TABLE unframed AS
    WITH one AS (
        SELECT subject, property, list(object ORDER BY object) AS new_objects FROM objects
        WHERE decision = 'new' GROUP BY subject, property HAVING count(*) = 1
    ), old AS (
        SELECT subject, property, list(object ORDER BY object) AS old_objects,
               list(object_label ORDER BY object) AS old_answers
        FROM objects WHERE decision = 'obsolete' GROUP BY subject, property
    )
    SELECT concat_ws(':', subject, property, object) AS case_id,
           CASE WHEN scenario = 'ReplaceObject' THEN 'update' ELSE 'new' END AS tag,
           subject, u.subject_label, property, u.property_label, object, o.object_label, o.object_aliases,
           list_filter([o.new_statement_id], lambda x: x IS NOT NULL) AS statement_ids,
           coalesce(old_objects, []) AS old_objects, coalesce(old_answers, []) AS old_answers,
           question, rephrase, cloze, rephrases, clozes, name, subject_class, phrase, answer, template,
           coalesce(e.label <> u.subject_label, false) OR coalesce(f.label <> o.object_label, false) AS label_changed
    FROM updates u JOIN one USING (subject, property) JOIN objects o USING (subject, property)
    LEFT JOIN old USING (subject, property)
    LEFT JOIN old_entities e ON e.id = subject LEFT JOIN old_entities f ON f.id = o.object
    WHERE o.decision = 'new' AND scenario IN ('ReplaceObject', 'AddRelation', 'AddEntity')
"""

_LOCALITY = """
    CREATE TABLE locality AS
    SELECT DISTINCT ON (case_id) case_id, n.neighbour AS subject, n.neighbour_label AS subject_label,
           n.neighbour_property AS property, n.neighbour_property_label AS property_label, n.object, n.object_label,
           n.object_aliases, n.similarity, n.basis, n.question
    FROM cases c JOIN neighbours n ON n.subject = c.subject AND n.property = c.property
    WHERE basis = 'nearest' AND n.object <> c.object AND NOT list_contains(c.old_objects, n.object)
    ORDER BY case_id, n.place
"""

_KNOWN_FACTS = """
    CREATE TABLE known_facts AS
    WITH old_label AS (
        SELECT id, label FROM old_entities WHERE label IS NOT NULL
    ), wanted AS (
        SELECT subject, subject_label, property, property_label, old_objects[1] AS object,
               old_answers[1] AS object_label, question, rephrase, cloze, 0 AS turn
        FROM cases SEMI JOIN old_label ON old_label.id = subject WHERE len(old_objects) = 1
        UNION ALL
        SELECT neighbour, neighbour_label, neighbour_property, neighbour_property_label, object, object_label,
               question, rephrase, cloze, CASE basis WHEN 'nearest' THEN place ELSE 100 + place END
        FROM neighbours
    )
    SELECT * FROM wanted
    QUALIFY row_number() OVER (PARTITION BY subject, property, object ORDER BY turn) = 1
    ORDER BY turn, md5(subject || property), object LIMIT $limit
"""
