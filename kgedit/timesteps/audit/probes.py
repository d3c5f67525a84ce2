"""Checks of locality and two-hop questions, similar to those of an edit.

Without ids, a locality question may mean a fact of any entity in it whose value has the answer's name, and the second
hop a fact of the edit's object whose value has the answer's name.
"""

from __future__ import annotations

import duckdb

from kgedit.timesteps.audit.checks import Check, reason_of, verdict_of
from kgedit.wikidata.ids import JURISDICTION, OFFICES, POSITION_HELD

LOCALITY: tuple[Check, ...] = (
    ("undecidable", "locality: its fact was not found", "subject IS NULL"),
    ("undecidable", "locality: its subject is not in both snapshots", "NOT in_both"),
    ("invalid", "locality: it is one of the file's edits", "edited"),
    ("invalid", "locality: the answer does not hold at the newer date", "NOT current"),
    ("invalid", "locality: it changed in the window", "changed AND NOT may_have_changed"),
    ("invalid", "locality: several current values", "several AND NOT several_allowed"),
    ("invalid", "locality: the question names the answer", "names_answer"),
)

TWO_HOPS: tuple[Check, ...] = (
    ("undecidable", "two hops: the edit itself was not found", "edited_object IS NULL"),
    ("invalid", "two hops: the second does not begin where the first ends", "bridge <> edited_object"),
    ("undecidable", "two hops: the bridge is not in the newer snapshot", "NOT bridge_in_new"),
    ("undecidable", "two hops: the second fact was not found", "object IS NULL"),
    ("invalid", "two hops: the second fact does not hold at the newer date", "NOT current"),
    ("invalid", "two hops: the old value gives the same answer", "same_without_edit"),
    ("invalid", "two hops: the answer follows from the first subject", "follows_from_subject"),
    ("invalid", "two hops: the question names the answer", "names_answer"),
)

_NEAR = """
    CREATE TABLE near_candidate AS
    WITH given AS (
        SELECT place, probe, subject, property, object FROM claimed_near
        WHERE subject IS NOT NULL AND property IS NOT NULL AND object IS NOT NULL
    ), valued AS (
        -- A subject and a relation with a literal, or an answer without an id.
        SELECT n.place, n.probe, f.subject, f.property, f.object
        FROM claimed_near n JOIN new_facts f ON f.subject = n.subject AND f.property = coalesce(n.property, f.property)
        WHERE n.object IS NULL AND (says_the_same(f.value, n.answer)
                                    OR f.object IN (SELECT id FROM names WHERE name = bare(n.answer)))
    ), named AS (
        SELECT n.place, n.probe, f.subject, f.property, f.object
        FROM claimed_near n JOIN mentioned m USING (place, probe) JOIN names s ON s.name = m.name
        JOIN new_facts f ON f.subject = s.id
        WHERE n.subject IS NULL AND (says_the_same(f.value, n.answer)
                                     OR f.object IN (SELECT id FROM names WHERE name = bare(n.answer)))
    ), candidate AS (FROM given UNION FROM valued UNION FROM named)
    SELECT place, probe, c.subject, c.property, c.object
    FROM claimed_near n LEFT JOIN candidate c USING (place, probe)
"""

_HOPS = """
    CREATE TABLE hop_candidate AS
    WITH claimed AS (
        SELECT h.place, h.probe, coalesce(h.subject, v.object) AS bridge, v.object AS edited_object, h.property,
               h.object, h.answer
        FROM claimed_hops h JOIN edit_verdict v USING (place)
    ), named AS (
        SELECT c.place, c.probe, f.property, f.object
        FROM claimed c JOIN new_facts f ON f.subject = c.bridge AND f.property = coalesce(c.property, f.property)
        WHERE c.object IS NULL AND (says_the_same(f.value, c.answer)
                                    OR f.object IN (SELECT id FROM names WHERE name = bare(c.answer)))
    )
    SELECT c.place, c.probe, c.bridge, c.edited_object, coalesce(n.property, c.property) AS property,
           coalesce(n.object, c.object) AS object
    FROM claimed c LEFT JOIN named n USING (place, probe)
"""

_WAYS_WITHOUT_EDIT = """
    CREATE TABLE way_without_edit AS
    SELECT DISTINCT c.place, c.probe, c.property, c.object
    FROM hop_candidate c JOIN edit_verdict v USING (place)
    JOIN old_facts b ON b.subject = v.subject AND b.property = v.property AND b.object <> c.bridge
    JOIN either_facts f ON f.subject = b.object AND f.property = c.property AND f.object = c.object
"""
"""Two-hop questions to which a value that the edit replaces gives the same answer, in either snapshot."""


def judge_locality(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``near_verdict``: one row per locality question with place, probe, verdict and reason."""
    connection.execute(_NEAR)
    for name in ("old", "new"):
        connection.execute(
            f"""
            CREATE VIEW {name}_values AS
            SELECT subject, property, list_sort(list(DISTINCT object)) AS objects FROM {name}_facts GROUP BY ALL
            """  # noqa: S608 - our own names
        )
    _judge(
        connection,
        "near_verdict",
        LOCALITY,
        """
        SELECT c.*, names_it(n.question, n.answer) AS names_answer, e.several_allowed, n.may_have_changed,
               c.subject IN (SELECT id FROM new_entities) AND (c.subject IN (SELECT id FROM old_entities)
                   OR c.subject IN (SELECT target FROM redirects JOIN old_entities USING (id))) AS in_both,
               (c.subject, c.property) IN (
                   SELECT (subject, property) FROM edit_verdict WHERE object IS NOT NULL) AS edited,
               coalesce(list_contains(now.objects, c.object), false) AS current,
               coalesce(len(now.objects), 0) > 1 AS several,
               now.objects IS DISTINCT FROM before.objects AS changed
        FROM near_candidate c JOIN claimed_near n USING (place, probe) JOIN claimed_edits e USING (place)
        LEFT JOIN new_values now ON now.subject = c.subject AND now.property = c.property
        LEFT JOIN old_values before ON before.subject = c.subject AND before.property = c.property
        """,
    )


def judge_two_hops(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``hop_verdict``: one row per two-hop question with place, probe, verdict and reason."""
    connection.execute("CREATE TABLE either_facts AS FROM old_facts UNION FROM new_facts")
    connection.execute(_HOPS)
    connection.execute(_WAYS_WITHOUT_EDIT)
    _judge(
        connection,
        "hop_verdict",
        TWO_HOPS,
        f"""
        SELECT c.*, names_it(h.question, h.answer) AS names_answer,
               c.bridge IN (SELECT id FROM new_entities) AS bridge_in_new,
               (c.bridge, c.property, c.object) IN (SELECT (subject, property, object) FROM new_facts) AS current,
               (c.place, c.probe, c.property, c.object) IN (
                   SELECT (place, probe, property, object) FROM way_without_edit) AS same_without_edit,
               (v.subject, c.object) IN (SELECT (subject, object) FROM either_facts)
                   OR (c.object, v.subject) IN (
                       SELECT (subject, object) FROM either_facts WHERE property IN {JURISDICTION})
                   OR v.property IN {OFFICES} AND c.property = '{POSITION_HELD}' AS follows_from_subject
        FROM hop_candidate c JOIN claimed_hops h USING (place, probe) JOIN edit_verdict v USING (place)
        """,  # noqa: S608 - our own names
    )


def _judge(connection: duckdb.DuckDBPyConnection, name: str, checks: tuple[Check, ...], candidates: str) -> None:
    stage = " ".join(f"WHEN {condition} THEN {index}" for index, (_, _, condition) in enumerate(checks))
    connection.execute(
        f"""
        CREATE TABLE {name} AS
        WITH candidate AS ({candidates}), staged AS (
            SELECT place, probe, max(CASE {stage} ELSE {len(checks)} END) AS stage FROM candidate GROUP BY place, probe
        )
        SELECT place, probe, {verdict_of(checks)} AS verdict, {reason_of(checks)} AS reason FROM staged
        """  # noqa: S608 - our own names and numbers
    )
