"""Checks of an edit and of its questions, as ordered tables: the first check that holds is the verdict of a candidate.

A row without ids has several candidates: the statements of every entity with the subject's name whose value has the
answer's name, with any relation if the file gives none. The row's verdict is that of the candidate that passes the most
checks, so a name that two entities share does no harm if one of them has the fact.

Likewise a locality question may mean a fact of any entity in it whose value has the answer's name, and the second hop a
fact of the edit's object whose value has the answer's name.
"""

from __future__ import annotations

import duckdb

from kgedit.wikidata.ids import JURISDICTION, OFFICES, POSITION_HELD

Check = tuple[str, str, str]
"""Verdict, reason, and the condition under which it holds, in SQL."""

CHECKS: tuple[Check, ...] = (
    ("undecidable", "no entity of the snapshots is the subject", "NOT subject_known"),
    ("undecidable", "the subject is not in the newer snapshot", "NOT subject_in_new"),
    ("invalid", "a qualifier, no main statement, has the property", "NOT found AND qualifier_only"),
    ("undecidable", "an object without a label may be the answer", "NOT found AND unlabelled"),
    ("undecidable", "a literal that is written otherwise may be the answer", "NOT found AND literal"),
    ("invalid", "no main statement says so", "NOT found"),
    ("invalid", "deprecated", "deprecated"),
    ("invalid", "true only under a restrictive qualifier", "NOT current AND restricted"),
    ("invalid", "had ended at the newer date", "NOT current AND ended"),
    ("invalid", "had not begun at the newer date", "NOT current AND not_begun"),
    ("invalid", "a statement of better rank holds instead", "NOT current"),
    ("invalid", "several current values", "several AND NOT several_allowed"),
    ("undecidable", "the subject is not in the older snapshot", "NOT subject_in_old AND NOT new_entity"),
    ("invalid", "held at the older date already", "held_before"),
    ("invalid", "the old answer did not hold at the older date", "NOT old_answers_held"),
    ("invalid", "called new, and there was a value before", "tag = 'new' AND had_value"),
    ("invalid", "called an update, and there was no value before", "tag = 'update' AND NOT had_value"),
    ("invalid", "a question names the answer", "names_answer"),
)
"""In order of evaluation."""

_SUBJECTS = """
    CREATE TABLE subject_candidate AS
    SELECT place, id AS subject FROM claimed_edits JOIN names ON name = bare(subject_label) WHERE subject IS NULL
    UNION SELECT place, subject FROM claimed_edits
    WHERE subject IN (SELECT id FROM old_entities UNION ALL SELECT id FROM new_entities)
"""

_FOUND = """
    CREATE TABLE found AS
    SELECT c.place, c.subject, s.property, s.object, bool_and(rank = 'deprecated') AS deprecated,
           bool_and(restricted OR rank = 'deprecated') AS restricted,
           bool_and(rank = 'deprecated' OR coalesce(end_precision = -1 OR end_until <= $date, false)) AS ended,
           bool_and(rank = 'deprecated' OR coalesce(start_first > $date, false)) AS not_begun
    FROM claimed_edits e JOIN subject_candidate c USING (place)
    JOIN new_statements s ON s.subject = c.subject AND s.property = coalesce(e.property, s.property)
    WHERE snak = 'value' AND CASE
        WHEN e.object IS NOT NULL THEN s.object = e.object
        WHEN s.item IS NULL THEN says_the_same(s.literal, e.answer)
        ELSE s.object IN (SELECT id FROM names WHERE name = bare(e.answer)) END
    GROUP BY ALL
"""

_NOT_FOUND = r"""
    CREATE TABLE not_found AS
    SELECT e.place, c.subject, e.property,
           coalesce(bool_or(list_contains(qualifier_properties, e.property)), false)
               AND NOT coalesce(bool_or(s.property = e.property), false) AS qualifier_only,
           e.object IS NULL AND coalesce(bool_or(s.item IS NOT NULL AND n.label IS NULL
                                         AND s.property = coalesce(e.property, s.property)), false) AS unlabelled,
           e.object IS NULL AND coalesce(bool_or(
               s.literal IS NOT NULL AND says_the_same(s.literal, e.answer) IS NULL
               AND (s.property = e.property OR e.property IS NULL AND regexp_matches(e.answer, '\d'))
           ), false) AS literal
    FROM claimed_edits e LEFT JOIN subject_candidate c USING (place)
    LEFT JOIN new_statements s ON s.subject = c.subject LEFT JOIN new_entities n ON n.id = s.object
    WHERE e.place NOT IN (SELECT place FROM found)
    GROUP BY e.place, c.subject, e.property, e.object, e.answer
"""

_CANDIDATES = """
    CREATE TABLE edit_candidate AS
    WITH candidate AS (
        SELECT *, true AS found, false AS qualifier_only, false AS unlabelled, false AS literal FROM found
        UNION ALL BY NAME SELECT *, false AS found FROM not_found
    ), now AS (
        SELECT subject, property, list({'object': object, 'said': coalesce(value, object)}) AS values
        FROM new_facts GROUP BY ALL
    ), before AS (
        SELECT subject, property, list(object) AS objects, list(literal) AS said FROM old_facts GROUP BY ALL
    ), old_name AS (
        SELECT DISTINCT b.subject, b.property, n.name FROM old_facts b JOIN names n ON n.id = b.object
        WHERE n.name IN (SELECT bare(unnest(old_answers)) FROM claimed_edits)
    ), old_named AS (
        SELECT subject, property, list(name) AS names FROM old_name GROUP BY ALL
    )
    SELECT c.* EXCLUDE (deprecated, restricted, ended, not_begun), coalesce(deprecated, false) AS deprecated,
           coalesce(restricted, false) AS restricted, coalesce(ended, false) AS ended,
           coalesce(not_begun, false) AS not_begun,
           c.subject IS NOT NULL AS subject_known,
           c.subject IN (SELECT id FROM new_entities) AS subject_in_new,
           c.subject IN (SELECT id FROM old_entities)
               OR c.subject IN (SELECT target FROM redirects JOIN old_entities USING (id)) AS subject_in_old,
           (c.subject, c.property, c.object) IN (SELECT (subject, property, object) FROM new_facts) AS current,
           coalesce(len(list_filter(now.values, lambda x: NOT list_contains(e.other_objects, x.object)
                                                 AND NOT list_contains(e.other_objects, x.said))), 0) > 1 AS several,
           coalesce(list_contains(before.objects, c.object), false) AS held_before,
           coalesce(len(before.objects), 0) > 0 AS had_value,
           CASE WHEN len(e.old_objects) > 0 THEN coalesce(list_has_all(before.objects, e.old_objects), false)
                ELSE len(list_filter(e.old_answers, lambda x: NOT (
                         coalesce(list_contains(old_named.names, bare(x)), false)
                         OR coalesce(len(list_filter(before.said, lambda y: may_say(y, x))), 0) > 0))) = 0
                END AS old_answers_held
    FROM candidate c JOIN claimed_edits e USING (place)
    LEFT JOIN now ON now.subject = c.subject AND now.property = c.property
    LEFT JOIN before ON before.subject = c.subject AND before.property = c.property
    LEFT JOIN old_named ON old_named.subject = c.subject AND old_named.property = c.property
"""


def judge_edits(connection: duckdb.DuckDBPyConnection, *, date: int) -> None:
    """Create ``edit_verdict``: one row per edit with verdict, reason and the ids that it was resolved to.

    Args:
        connection: From open_snapshots.
        date: Day number of the newer snapshot.
    """
    connection.execute(_SUBJECTS)
    connection.execute(_FOUND, {"date": date})
    connection.execute(_NOT_FOUND)
    connection.execute(_CANDIDATES)
    stage = " ".join(f"WHEN {condition} THEN {index}" for index, (_, _, condition) in enumerate(CHECKS))
    connection.execute(
        f"""
        CREATE TABLE edit_verdict AS
        WITH naming AS (
            SELECT place, bool_or(names_it(question, answer)) AS names_answer
            FROM claimed_questions WHERE part = 'edit' GROUP BY place
        ), staged AS (
            SELECT c.*, CASE {stage} ELSE {len(CHECKS)} END AS stage
            FROM edit_candidate c JOIN claimed_edits e USING (place) JOIN naming USING (place)
        ), best AS (
            SELECT place, subject, property, object, stage FROM staged
            QUALIFY row_number() OVER (
                PARTITION BY place ORDER BY stage DESC, length(subject), subject, property, object) = 1
        )
        SELECT *, {verdict_of(CHECKS)} AS verdict, {reason_of(CHECKS)} AS reason FROM best
        """
    )


def verdict_of(checks: tuple[Check, ...]) -> str:
    """SQL of the verdict of a column ``stage``, the index of the check that held, or the number of checks if none."""
    return _by_stage([verdict for verdict, _, _ in checks]) or ""


def reason_of(checks: tuple[Check, ...]) -> str:
    """SQL of the reason of a column ``stage``; null if valid."""
    return _by_stage([reason for _, reason, _ in checks], otherwise="NULL")


def _by_stage(texts: list[str], *, otherwise: str = "'valid'") -> str:
    cases = " ".join(f"WHEN {index} THEN '{text.replace(chr(39), chr(39) * 2)}'" for index, text in enumerate(texts))
    return f"CASE stage {cases} ELSE {otherwise} END"


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
        WHERE n.object IS NULL AND (says_the_same(f.literal, n.answer)
                                    OR f.object IN (SELECT id FROM names WHERE name = bare(n.answer)))
    ), named AS (
        SELECT n.place, n.probe, f.subject, f.property, f.object
        FROM claimed_near n JOIN mentioned m USING (place, probe) JOIN names s ON s.name = m.name
        JOIN new_facts f ON f.subject = s.id
        WHERE n.subject IS NULL AND (says_the_same(f.literal, n.answer)
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
        WHERE c.object IS NULL AND (says_the_same(f.literal, c.answer)
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
            """
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
        """,
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
        """
    )
