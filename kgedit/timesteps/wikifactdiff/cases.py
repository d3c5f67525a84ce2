"""Cases of the updates that current editing methods can apply, with their probes; and neighbours of all updates.

Neighbours are triples of an update's relation about similar subjects, which an edit must not change. For each subject
the 500 most similar entities are found (kgedit.timesteps.engines.sparse_cosine); of these, the ten most similar ones
with an unchanged fact of the relation give one triple each (section 4.4). Random triples from the neighbours of all
updates complement them.

A case is a ReplaceObject (its obsolete value is the old answer), or an AddRelation or AddEntity with one new value. An
AddRelation is not a case if the older snapshot does have a value of the relation, which preprocessing dropped: its old
answer would be undefined. Its locality probe is the nearest neighbour's triple whose object is not an object of the
update, and which is not yet the probe of three other cases. A question that fails a final filter is left out on every
axis; if it is the update question, so is the case.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from kgedit.store.window import Window
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.engines.sparse_cosine import COSINE_UNIT
from kgedit.timesteps.filters import add_counts, gives_away, judge_cases, judge_probes, without_namesakes
from kgedit.timesteps.locality import CHOSEN, assign
from kgedit.timesteps.relation_words import RelationWords
from kgedit.timesteps.tables import ALIKE, EVIDENCE_RANK
from kgedit.timesteps.wikifactdiff.values import word_literals
from kgedit.timesteps.wikifactdiff.workspace import read_table
from kgedit.timesteps.wording import persona_voiced
from kgedit.wording.dates import lead

NEAREST_ENTITIES = 500
TRIPLES = 10
"""n and k of the paper."""

UNCHANGED_TRIPLES = """
    CREATE TABLE unchanged_triple AS
    WITH o AS (
        SELECT subject, property, list_sort(list(object)) AS objects FROM old_facts
        SEMI JOIN (SELECT DISTINCT property FROM update_group) USING (property)
        WHERE subject[1] = 'Q' AND kind IN ('item', 'value') GROUP BY subject, property
    ), n AS (
        SELECT subject, property, list_sort(list(object)) AS objects FROM new_facts
        SEMI JOIN (SELECT DISTINCT property FROM update_group) USING (property)
        WHERE subject[1] = 'Q' AND kind IN ('item', 'value') GROUP BY subject, property
    )
    SELECT o.subject, o.property, o.objects[1] AS object FROM o JOIN n USING (subject, property, objects)
    ANTI JOIN update_group USING (subject, property)
"""
"""Facts of groups that are equal in both snapshots; of several objects the one whose id sorts first."""


def find_neighbours(
    engine: Engine, window: Window, *, seed: int | None = None, n: int = NEAREST_ENTITIES, k: int = TRIPLES
) -> None:
    """Create ``nearest_triple`` (subject, property, place, neighbour, object, cosine), cosine in millionths.

    Args:
        engine: Finds the most similar entities.
        window: Window with update_group, unchanged_triple, and ``document`` (id): items of the older snapshot that may
            be neighbours.
        seed: Seed of the order of equally similar entities; None orders them by id, as in Cypher.
        n: Number of most similar entities to consider per subject.
        k: Maximum number of triples per update.
    """
    window.run(
        "CREATE TABLE nearest_triple (subject VARCHAR, property VARCHAR, place BIGINT, neighbour VARCHAR, "
        "object VARCHAR, cosine BIGINT)"
    )
    subjects = window.select("SELECT DISTINCT subject AS id FROM update_group")
    documents = window.select("SELECT id FROM document")
    order = "''" if seed is None else f"md5(concat_ws('|', {int(seed)}, g.subject, t.subject))"
    for found in engine.nearest_entities(window, subjects, documents, n=n):
        window.run(
            f"""
            INSERT INTO nearest_triple
            SELECT g.subject, g.property,
                   row_number() OVER (
                       PARTITION BY g.subject, g.property
                       ORDER BY cosine DESC, {order}, t.subject[2:]::BIGINT
                   ) AS place, t.subject, t.object, cosine
            FROM found JOIN update_group g USING (subject)
            JOIN unchanged_triple t ON t.subject = found.neighbour AND t.property = g.property
            QUALIFY place <= {int(k)}
            """,
            found=found,
        )


def draw_random_neighbours(workspace: duckdb.DuckDBPyConnection, *, seed: int) -> None:
    """Create ``random_triple`` (subject, property, place, neighbour, neighbour_property, object).

    For each update ten triples from the nearest neighbours of all updates, none about its own subject and none that
    names one of its values. The draw depends on the seed, the update and the set drawn from.
    """
    workspace.execute(
        """
        CREATE TABLE random_triple AS
        WITH pool AS (
            SELECT row_number() OVER (ORDER BY neighbour, property, object) - 1 AS number, *
            FROM (SELECT DISTINCT neighbour, property, object FROM nearest_triple)
        ), drawn AS (
            SELECT subject, property, draw,
                   md5_number_lower(concat_ws('|', $seed::VARCHAR, subject, property, draw::VARCHAR))
                       % (SELECT greatest(count(*), 1) FROM pool) AS number
            FROM update_group, range(3 * $k) AS draws(draw)
        ), once AS (
            SELECT d.subject, d.property, p.neighbour, p.property AS neighbour_property, p.object, min(draw) AS draw
            FROM drawn d JOIN pool p USING (number) WHERE p.neighbour <> d.subject GROUP BY ALL
        ), apart AS (
            SELECT once.* FROM once
            ANTI JOIN update_object own ON own.subject = once.subject AND own.property = once.property
                                       AND own.object IN (once.neighbour, once.object)
        )
        SELECT subject, property, row_number() OVER (PARTITION BY subject, property ORDER BY draw) AS place, neighbour,
               neighbour_property, object FROM apart QUALIFY place <= $k
        """,
        {"seed": seed, "k": TRIPLES},
    )


def similarity(cosine: str) -> str:
    """SQL of a cosine as a number from 0 to 1."""
    return f"{cosine} / {COSINE_UNIT}.0"


def find_unchanged_triples(workspace: duckdb.DuckDBPyConnection) -> None:
    """Create ``document``, items with an article that are not Wikimedia pages, and ``unchanged_triple`` of these.

    Triples are kept if their subject and property have labels, and their object has a text that is not part of the
    subject's label (New York City is a city). ``triple_object`` has the texts of the objects.
    """
    workspace.execute(
        """
        CREATE TABLE document AS
        SELECT id FROM old_entities SEMI JOIN (SELECT id FROM known WHERE wiki_title IS NOT NULL) USING (id)
        WHERE kind = 'item' AND id NOT IN (FROM page)
        """
    )
    workspace.execute(UNCHANGED_TRIPLES)
    objects = """
        SELECT * FROM (
            SELECT object, any_value(kind) AS kind, any_value(value_type) AS value_type, any_value(value) AS value,
                   any_value(unit) AS unit, any_value(precision) AS precision
            FROM old_facts SEMI JOIN (SELECT DISTINCT object FROM unchanged_triple) USING (object) GROUP BY object
        ) LEFT JOIN unit USING (unit)
    """
    workspace.execute(
        f"""
        CREATE TABLE triple_object AS
        WITH held AS ({word_literals(objects)})
        SELECT object, CASE held.kind WHEN 'item' THEN label ELSE said END AS label,
               CASE held.kind WHEN 'item' THEN description ELSE name_literal(value_type, precision) END AS description,
               CASE held.kind WHEN 'item' THEN coalesce(aliases, []) ELSE list_filter(spelled, lambda x: x <> said) END
                   AS aliases
        FROM held LEFT JOIN known ON id = object
        """
    )
    workspace.execute(
        """
        DELETE FROM unchanged_triple
        WHERE subject NOT IN (SELECT id FROM document JOIN known USING (id) WHERE label IS NOT NULL)
           OR object NOT IN (SELECT object FROM triple_object WHERE label IS NOT NULL)
           OR object IN (FROM page)
           OR property IN (FROM unnamed_property)
        """
    )
    workspace.execute(
        f"""
        DELETE FROM unchanged_triple WHERE (subject, object) IN (
            -- Materialized, since DuckDB would otherwise compare the labels of all subjects and objects.
            WITH pair AS MATERIALIZED (
                SELECT DISTINCT t.subject, t.object, s.label AS said, o.label AS answer
                FROM unchanged_triple t JOIN known s ON s.id = t.subject JOIN triple_object o USING (object)
            )
            SELECT subject, object FROM pair WHERE {gives_away("said", "answer")}
        )
        """
    )


LOCALITY_USES = 3
"""Maximum number of cases with the same triple as locality probe, so that one wrong answer has little weight."""


def make_cases(
    workspace: duckdb.DuckDBPyConnection,
    words: RelationWords,
    *,
    known_facts: int,
    seed: int,
    personas: Path | None,
    persona_style: str,
    as_of: str,
    days: tuple[date, date] | None = None,
) -> dict[str, dict[str, Any]]:
    """Create the tables ``cases``, ``locality``, ``two_hops`` (without rows) and ``known_facts``.

    Cases of ambiguous subjects (kgedit.timesteps.wikifactdiff.values.prepare_subjects) are left out. The question of
    a neighbour of a case becomes null if it fails a final filter, and that of an ambiguous neighbour of any update.

    Args:
        workspace: Workspace with updates, objects and neighbours.
        words: Stems that express each relation (kgedit.timesteps.relation_words).
        known_facts: Maximum number of facts of the older snapshot to write questions for.
        seed: Seed of the choice of personas.
        personas: Folder of persona catalogues; None means the shipped ones.
        persona_style: One of kgedit.timesteps.profiles.PERSONA_STYLES.
        as_of: Day of the newer snapshot.
        days: If questions begin with a date, the older snapshot's day and the newer one's, with which they were worded.

    Returns:
        Results of the final filters (kgedit.timesteps.filters.count_faults).
    """
    workspace.execute(_HAD_VALUE)
    workspace.execute(_UNJUDGED)
    asked, ambiguous = without_namesakes(read_table(workspace, "FROM unjudged ORDER BY case_id"), "update")
    voiced = persona_voiced(asked, seed=seed, personas=personas, style=persona_style, as_of=days and days[1])
    judged = judge_cases(voiced, words)
    workspace.register("judged", judged.rows)
    workspace.execute(
        "CREATE TABLE cases AS SELECT * EXCLUDE (fault), $as_of AS as_of FROM judged WHERE fault IS NULL",
        {"as_of": as_of},
    )
    workspace.unregister("judged")
    counts = add_counts([judged.counts, ambiguous, _judge_neighbours(workspace, words)])
    _choose_locality(workspace, seed)
    older, newer = (lead(day) for day in days) if days else ("", "")
    workspace.execute("CREATE TABLE two_hops AS SELECT case_id FROM cases WHERE false")
    workspace.execute(_KNOWN_FACTS, {"limit": known_facts, "older": older, "newer": newer})
    return counts


def _choose_locality(workspace: duckdb.DuckDBPyConnection, seed: int) -> None:
    """Create ``locality``: each case's nearest neighbour that is not yet the probe of LOCALITY_USES other cases.

    Among equally similar neighbours, those with evidence are preferred (kgedit.timesteps.tables).
    """
    workspace.execute(_CANDIDATES, {"seed": seed})
    workspace.execute(CHOSEN)
    assign(workspace, "nearest", max_uses=LOCALITY_USES)
    workspace.execute(_LOCALITY)


def _judge_neighbours(workspace: duckdb.DuckDBPyConnection, words: RelationWords) -> dict[str, dict[str, Any]]:
    """Remove questions of the cases' neighbours that fail, and count them, each triple once."""
    asked, ambiguous = without_namesakes(read_table(workspace, _NEIGHBOUR_QUESTIONS), "locality")
    judged = judge_probes(asked, words)
    workspace.execute("UPDATE neighbours SET question = NULL WHERE ambiguous")
    workspace.register("judged", judged.rows)
    workspace.execute(
        "UPDATE neighbours SET question = NULL FROM judged j WHERE j.fault IS NOT NULL AND j.neighbour = "
        "neighbours.neighbour AND j.property = neighbours.neighbour_property AND j.object = neighbours.object"
    )
    workspace.unregister("judged")
    return add_counts([judged.counts, ambiguous])


_HAD_VALUE = """
    CREATE TABLE had_value AS
    SELECT DISTINCT coalesce(target, f.subject) AS subject, f.property
    FROM old_facts f LEFT JOIN redirect r ON r.id = f.subject
    WHERE (coalesce(target, f.subject), f.property) IN (
        SELECT (subject, property) FROM updates WHERE scenario = 'AddRelation')
"""
"""AddRelations whose relation was not empty: for example, an object without an article is no fact of the profile."""

_UNJUDGED = """
    CREATE TABLE unjudged AS
    WITH one AS (
        SELECT subject, property, list(object ORDER BY object) AS new_objects FROM objects
        WHERE decision = 'new' GROUP BY subject, property HAVING count(*) = 1
    ), old AS (
        SELECT subject, property, list(object ORDER BY object) AS old_objects,
               list(object_label ORDER BY object) AS old_answers
        FROM objects WHERE decision = 'obsolete' GROUP BY subject, property
    )
    SELECT concat_ws(':', subject, property, object) AS case_id,
           CASE WHEN scenario = 'ReplaceObject' THEN 'update' ELSE 'new' END AS tag, scenario,
           subject, u.subject_label, property, u.property_label, object, o.object_label, o.object_label AS answer,
           o.object_aliases, o.start_time, o.point_time AS point_in_time,
           list_filter([o.new_statement_id], lambda x: x IS NOT NULL) AS statement_ids,
           coalesce(old_objects, []) AS old_objects, coalesce(old_answers, []) AS old_answers,
           question, rephrase, cloze, rephrases, clozes, name, subject_class, ambiguous, phrase, answer_type,
           template,
           coalesce(s.aliases, []) AS subject_aliases, s.description AS subject_description,
           coalesce(e.label <> u.subject_label, false) OR coalesce(f.label <> o.object_label, false) AS label_changed
    FROM updates u JOIN one USING (subject, property) JOIN objects o USING (subject, property)
    LEFT JOIN old USING (subject, property)
    LEFT JOIN (SELECT id AS subject, aliases, description FROM known) s USING (subject)
    LEFT JOIN old_entities e ON e.id = subject LEFT JOIN old_entities f ON f.id = o.object
    WHERE o.decision = 'new' AND (scenario IN ('ReplaceObject', 'AddEntity')
          OR scenario = 'AddRelation' AND (subject, property) NOT IN (SELECT (subject, property) FROM had_value))
"""

_NEIGHBOUR_QUESTIONS = """
    SELECT DISTINCT ON (neighbour, neighbour_property, object) neighbour, neighbour_label AS subject_label,
           neighbour_property AS property, object, object_label, object_aliases, neighbour_name AS name, ambiguous,
           question
    FROM neighbours SEMI JOIN cases USING (subject, property) ORDER BY neighbour, neighbour_property, object
"""

_CANDIDATES = f"""
    CREATE TABLE candidate AS
    WITH numbered AS (
        SELECT *, row_number() OVER (ORDER BY md5(concat_ws('|', $seed, case_id)), case_id) - 1 AS number FROM cases
    )
    SELECT c.number AS place, c.case_id, dense_rank() OVER (ORDER BY n.neighbour, n.neighbour_property) - 1 AS number,
           n.similarity AS score,
           row_number() OVER (
               PARTITION BY c.case_id ORDER BY round(n.similarity, {ALIKE}) DESC, {EVIDENCE_RANK} DESC, n.place
           ) AS rank, n.neighbour AS subject, n.neighbour_label AS subject_label,
           n.neighbour_property AS property, n.neighbour_property_label AS property_label, n.object, n.object_label,
           n.object_aliases, n.similarity, n.basis, n.question, n.evidence
    FROM numbered c JOIN neighbours n ON n.subject = c.subject AND n.property = c.property
    WHERE basis = 'nearest' AND n.object <> c.object AND NOT list_contains(c.old_objects, n.object)
          AND n.question IS NOT NULL
"""

_LOCALITY = """
    CREATE TABLE locality AS
    SELECT c.* EXCLUDE (place, number, score, rank) FROM candidate c SEMI JOIN chosen USING (place, number);
    DROP TABLE candidate;
    DROP TABLE chosen
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
        FROM neighbours WHERE question IS NOT NULL
    )
    SELECT * REPLACE (replace(question, $newer, $older) AS question, replace(rephrase, $newer, $older) AS rephrase,
                      replace(cloze, $newer, $older) AS cloze)
    FROM wanted
    QUALIFY row_number() OVER (PARTITION BY subject, property, object ORDER BY turn, cloze) = 1
    ORDER BY turn, md5(subject || property), object LIMIT $limit
"""
