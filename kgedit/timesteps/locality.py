"""Locality probes: for each edit an unchanged fact with the same relation, a similar subject and another object.

Neither its subject nor its object was edited in the window. If changed facts are enabled, one of these that is not a
case is preferred (kgedit.timesteps.changes). Three searches follow, each for the cases that the previous one left
without a probe: subjects that share rare facts with the edited one (kgedit.timesteps.engines); the subject with the
most similar label, as in WikiBigEdit; and a fact of another relation of the same family, about a subject of the same
class. If all fail, the case has no probe: a fact of an unrelated relation would stay correct whatever an edit damages.
Each fact is used for a few cases at most. Among equally similar facts, those with evidence are preferred
(kgedit.timesteps.tables).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.store.engine import select
from kgedit.store.parts import keep_in_parts, of_part
from kgedit.store.window import Window
from kgedit.timesteps.engines import Engine
from kgedit.timesteps.labels import PAGES, page_classes, usable
from kgedit.timesteps.tables import ALIKE, CHANGED, EVIDENCE_RANK, FACT, find_evidence
from kgedit.wording.catalogues import ENGLISH, Language
from kgedit.yaml_files import load_yaml

_FILE = Path(__file__).parents[1] / "data" / "relation_families.yaml"


@cache
def read_families() -> dict[str, list[str]]:
    """The shipped families: name -> properties."""
    families: dict[str, list[str]] = load_yaml(_FILE.read_text(encoding="utf-8"))
    return families


def families_version() -> str:
    """Version of the shipped families: the first 16 hex digits of their file's hash."""
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()[:16]


def related_relations(window: Window) -> pa.Table:
    """Find pairs of relations of one family: a shipped one, or a subproperty tree (P1647) of the older snapshot.

    Only direct subproperties count: two relations with the same parent, and a parent with its child.

    Returns:
        Columns property and other, in both directions, ordered.
    """
    rows = [{"property": name, "family": family} for family, names in read_families().items() for name in names]
    return window.select(
        """
        WITH parent AS (SELECT subject AS property, object AS family FROM old_facts WHERE property = 'P1647'),
        belongs AS (
            SELECT property, family FROM shipped
            UNION SELECT property, family FROM parent
            UNION SELECT family, family FROM parent
        )
        SELECT DISTINCT a.property, b.property AS other FROM belongs a JOIN belongs b USING (family)
        WHERE a.property <> b.property ORDER BY ALL
        """,
        shipped=pa.Table.from_pylist(rows, schema=pa.schema([("property", pa.string()), ("family", pa.string())])),
    )


CANDIDATES = 10
"""Number of facts considered per case and search."""

_RELATIONS = 5
"""Number of similar relations whose facts are considered for a case."""

RELATION_SAMPLE = 1000
"""Number of facts of a relation in which its classes are counted."""


def find_locality(
    engine: Engine,
    window: Window,
    *,
    pool: int,
    max_df: int,
    max_uses: int,
    changed: pa.Table | None = None,
    language: Language = ENGLISH,
) -> None:
    """Find unchanged facts of the relations of some cases, and choose a probe for each case if possible.

    Creates the tables probe (choose_probes) and static_near (subject, property and object): unchanged facts of the
    cases' relations, at most `pool` of each, with labels.

    Args:
        engine: Finds similar subjects and unchanged facts.
        window: Window with the table worded_case: case_id, subject, subject_label, property, object and old_objects,
            written in the order of case_id.
        pool: Number of unchanged facts of each relation to choose from by label.
        max_df: Maximum number of items that may share a fact for it to count for similarity.
        max_uses: Maximum number of cases with the same fact.
        changed: From find_changed_facts; preferred. None means unchanged facts only.
        language: Language of the labels.
    """
    found = engine.similar_subjects(window, "FROM worded_case", max_df=max_df, k=CANDIDATES, pool=pool)
    for part in found.similar:
        window.add("similar_fact", part)
    _keep_near_facts(window, found.static, pool, _NONE if changed is None else changed, language)
    window.run(_ASKED)
    _keep_classes(window)
    relations = compare_relations(window, window.select("SELECT DISTINCT property FROM worded_case"))
    choose_probes(window.connection, relations, max_uses=max_uses)
    window.run("CREATE TABLE static_near AS SELECT subject, property, object FROM near_fact WHERE pooled")
    window.drop("similar_fact", "near_fact", "asked_case", "class_of")


_ASKED = """
    CREATE TABLE asked_case AS
    SELECT rowid AS place, case_id, subject, subject_label, property, object, old_objects FROM worded_case
"""

_FACT = [*FACT, "object_aliases"]


def choose_probes(connection: duckdb.DuckDBPyConnection, relations: pa.Table, *, max_uses: int) -> None:
    """Choose a fact for each case: similar by facts, else by label, else by the relation's family and subject's class.

    Cases are compared with their candidates in parts, and both are tables that can spill. Creates the table probe: at
    most one fact per case, with labels, case_id, score, basis ("changed", "graph", "label" or "relation") and evidence.

    Args:
        connection: Connection with these tables, and without candidate, chosen and waiting_in_parts:
            asked_case (place, by case_id, case_id, subject, subject_label, property, object and old_objects),
            class_of (id and classes, a list, of the subjects of cases and facts),
            similar_fact (case_id, subject, property, object and score), and
            near_fact: facts with labels, evidence, ``pooled``, ``untouched``, ``changed``, and a number by property and
            subject. For a case that they are not similar to, only those that are pooled and untouched, or changed, are
            used.
        relations: Columns property, other and likeness; pairs of one family.
        max_uses: Maximum number of cases with the same fact.
    """
    connection.execute(f"{CHOSEN}; {_CANDIDATE}")
    facts = select(
        f"SELECT {', '.join(_ELIGIBLE_BY)} FROM near_fact WHERE pooled OR changed ORDER BY number",
        connection=connection,
    )
    classes = select("FROM class_of WHERE id IN (SELECT subject FROM facts)", connection=connection, facts=facts)
    shared = {"facts": facts, "relations": relations, "their_classes": classes}
    for basis, query in _WAYS.items():
        connection.execute("TRUNCATE candidate")
        if basis == "graph":
            connection.execute(query, {"candidates": CANDIDATES})
        elif basis != CHANGED or any(facts["changed"].unique().to_pylist()):
            _keep_candidates(connection, query, shared)
        assign(connection, basis, max_uses=max_uses)
    connection.execute(
        f"CREATE TABLE probe AS SELECT case_id, {', '.join(_FACT)}, score, basis, evidence FROM chosen "
        "JOIN (SELECT case_id, place FROM asked_case) USING (place) JOIN near_fact USING (number)"
    )
    connection.execute("DROP TABLE candidate; DROP TABLE chosen")


CHOSEN = "CREATE TABLE chosen (place BIGINT, number BIGINT, score DOUBLE, basis VARCHAR)"
"""Table of `assign`: place of a case, number of its fact."""

_CANDIDATE = "CREATE TABLE candidate (place BIGINT, number BIGINT, score DOUBLE, rank BIGINT)"


def _keep_candidates(connection: duckdb.DuckDBPyConnection, query: str, shared: Mapping[str, pa.Table]) -> None:
    """Add the best candidates of cases without a probe to the table candidate, for some hundred cases at a time."""
    connection.execute(_WAITING)
    numbered = f"SELECT *, (rowid // {_CASES_AT_ONCE})::INTEGER AS part FROM waiting_case"
    keep_in_parts(connection, "waiting_in_parts", numbered)
    parts = connection.execute("SELECT coalesce(max(part) + 1, 0) FROM waiting_in_parts").fetchall()[0][0]
    for part in range(parts):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW waiting AS {of_part('waiting_in_parts', part)}")
        found = select(_RANKED.format(query=query), {"candidates": CANDIDATES}, connection=connection, **shared)
        connection.register("found", found)
        connection.execute("INSERT INTO candidate FROM found")
        connection.unregister("found")
    connection.execute("DROP VIEW IF EXISTS waiting; DROP TABLE waiting_in_parts; DROP TABLE waiting_case")


_WAITING = """
    CREATE TEMP TABLE waiting_case AS
    SELECT asked_case.*, classes FROM asked_case ANTI JOIN chosen USING (place) LEFT JOIN class_of ON id = subject
"""

_CASES_AT_ONCE = 500
"""Cases whose candidates are ranked at once: each is compared with a thousand facts, or a few thousand."""

_ELIGIBLE_BY = [
    "number",
    "subject",
    "subject_label",
    "property",
    "object",
    "evidence",
    "pooled",
    "untouched",
    "changed",
]

_ELIGIBLE = """
    f.pooled AND f.untouched AND f.subject <> w.subject AND f.object <> w.object
    AND NOT list_contains(w.old_objects, f.object)
"""

_SIMILAR = f"""
    INSERT INTO candidate
    SELECT place, number, score, row_number() OVER (
        PARTITION BY place ORDER BY round(score, {ALIKE}) DESC, {EVIDENCE_RANK} DESC, score DESC, number) AS rank
    FROM similar_fact JOIN (SELECT case_id, place FROM asked_case) USING (case_id)
    JOIN (SELECT number, subject, property, object, evidence FROM near_fact) USING (subject, property, object)
    ANTI JOIN chosen USING (place) QUALIFY rank <= $candidates
"""

_WAYS = {
    CHANGED: """
        SELECT place, number, jaro_winkler_similarity(w.subject_label, f.subject_label) AS score, 0.0 AS likeness
        FROM waiting w JOIN facts f USING (property)
        WHERE f.changed AND f.subject NOT IN (w.subject, w.object) AND f.object NOT IN (w.subject, w.object)
              AND NOT list_contains(w.old_objects, f.object)
    """,
    "graph": _SIMILAR,
    "label": f"""
        SELECT place, number, jaro_winkler_similarity(w.subject_label, f.subject_label) AS score, 0.0 AS likeness
        FROM waiting w JOIN facts f USING (property) WHERE {_ELIGIBLE}
    """,
    "relation": f"""
        SELECT place, number, jaro_winkler_similarity(w.subject_label, f.subject_label) AS score, likeness
        FROM waiting w JOIN (
            FROM relations
            QUALIFY row_number() OVER (PARTITION BY property ORDER BY likeness DESC, other) <= {_RELATIONS}
        ) r USING (property) JOIN facts f ON f.property = r.other JOIN their_classes their ON their.id = f.subject
        WHERE {_ELIGIBLE} AND list_has_any(w.classes, their.classes)
    """,
}
"""Basis -> SQL of candidates for the cases that have no probe yet; that of "graph" ranks them, too."""

_RANKED = f"""
    WITH best AS (
        SELECT place, max(struct_pack(likeness, alike := round(score, {ALIKE}), evidence := {EVIDENCE_RANK}, score,
                                      number := -number), $candidates) AS choices
        FROM ({{query}}) JOIN (SELECT number, evidence FROM facts) USING (number) GROUP BY place
    )
    SELECT place, -choice.number AS number, choice.score AS score, rank
    FROM (SELECT place, unnest(choices) AS choice, generate_subscripts(choices, 1) AS rank FROM best)
"""
"""The best candidates of each case; the others, which are all facts of a relation for each case, are dropped."""


def assign(connection: duckdb.DuckDBPyConnection, basis: str, *, max_uses: int) -> None:
    """Assign to each case its best candidate that is not used up.

    First choices are assigned first, then second ones; if several cases compete for a fact, higher scores win, then
    earlier cases.

    Args:
        connection: Connection with the tables candidate: place (of the case), number (of the fact), score and rank (1
            is the first choice); and chosen (CHOSEN), to which at most one row per case is added.
        basis: Basis of the added rows.
        max_uses: Maximum number of cases with the same fact, including those already chosen.
    """
    turns = connection.execute("SELECT coalesce(max(rank), 0) FROM candidate").fetchall()[0][0]
    for turn in range(1, turns + 1):
        connection.execute(_ACCEPTED, {"basis": basis, "turn": turn, "most": max_uses})


_ACCEPTED = """
    INSERT INTO chosen
    SELECT place, number, score, $basis FROM (
        SELECT *, row_number() OVER (PARTITION BY number ORDER BY score DESC, place) AS nth
        FROM candidate ANTI JOIN chosen USING (place) WHERE rank = $turn
    ) LEFT JOIN (SELECT number, count(*) AS uses FROM chosen GROUP BY number) USING (number)
    WHERE nth + coalesce(uses, 0) <= $most
"""


def compare_relations(window: Window, properties: pa.Table) -> pa.Table:
    """Similarity of the edits' relations of one family: the cosine of the classes of their subjects and objects.

    Weights are integers in thousandths, so their sum does not depend on the order.

    Args:
        window: Both snapshots.
        properties: Column property: relations of the edits.

    Returns:
        Columns property, other and likeness, for every pair of two related relations of the edits.
    """
    return window.select(
        """
        WITH relation AS (SELECT DISTINCT property FROM asked), fact AS MATERIALIZED (
            SELECT property, drawn.subject, drawn.object FROM (
                -- The least of all, instead of a window, which would hold every fact of the relations.
                SELECT property, unnest(min(struct_pack(place := md5(subject || object), subject, object), $sample))
                    AS drawn
                FROM old_facts SEMI JOIN relation USING (property) GROUP BY property
            )
        ), class AS MATERIALIZED (
            SELECT subject AS id, object AS class FROM old_facts
            WHERE property = 'P31' AND subject IN (SELECT subject FROM fact UNION SELECT object FROM fact)
        ), feature AS MATERIALIZED (
            SELECT property, side, class, round(1e3 * ln(1 + count(*)))::BIGINT AS weight
            FROM (SELECT property, 'subject' AS side, subject AS id FROM fact
                  UNION ALL SELECT property, 'object', object FROM fact) JOIN class USING (id) GROUP BY ALL
        ), size AS (
            SELECT property, sqrt(sum(weight * weight)) AS size FROM feature GROUP BY ALL
        ), product AS (
            SELECT a.property, b.property AS other, sum(a.weight * b.weight) AS product
            FROM feature a JOIN feature b USING (side, class) GROUP BY ALL
        )
        SELECT r.property, o.property AS other, coalesce(round(product / (a.size * b.size), 6), 0) AS likeness
        FROM related JOIN relation r ON r.property = related.property JOIN relation o ON o.property = related.other
        LEFT JOIN product ON product.property = r.property AND product.other = o.property
        LEFT JOIN size a ON a.property = r.property LEFT JOIN size b ON b.property = o.property
        ORDER BY r.property, likeness DESC, other
        """,
        {"sample": RELATION_SAMPLE},
        asked=properties,
        related=related_relations(window),
    )


def _keep_classes(window: Window) -> None:
    """Create ``class_of``: classes (P31, in the older snapshot) of subjects of cases and of facts to compare."""
    window.run(
        """
        CREATE OR REPLACE TABLE class_of (id VARCHAR, classes VARCHAR[]);
        CREATE OR REPLACE TABLE described AS
        SELECT subject FROM asked_case UNION SELECT subject FROM near_fact WHERE pooled OR changed
        """
    )
    window.run_by_bucket(
        """
        INSERT INTO class_of
        SELECT subject, list(object ORDER BY object) FROM old_facts SEMI JOIN described USING (subject)
        WHERE property = 'P31' GROUP BY subject
        """,
        divided={"described": "subject"},
    )
    window.drop("described")


_NONE = pa.table({name: pa.array([], pa.string()) for name in ("subject", "property", "object")})


def _keep_near_facts(window: Window, static: pa.Table, pool: int, changed: pa.Table, language: Language) -> None:
    """Create ``near_fact`` of choose_probes: static facts, similar (``similar_fact``) and at most `pool` per relation,
    and changed facts, with labels for questions."""
    window.run(_NEAR.format(pool=pool, classes=page_classes()), pooled=static, changed=changed)
    window.run_by_bucket(
        f"""
        INSERT INTO near_subject
        SELECT f.*, label, evidence FROM near f JOIN new_entities ON id = f.subject
        LEFT JOIN ({find_evidence("near")}) USING (subject, property, object)
        ANTI JOIN ({PAGES}) p ON p.id = f.subject WHERE {usable("label", language)}
        """,
        divided={"near": "subject"},
    )
    window.run_by_bucket(
        f"""
        INSERT INTO near_fact
        SELECT f.number, f.subject, subject_label, f.property, coalesce(r.label, f.property), f.object, o.label,
               coalesce(o.aliases, []), evidence, pooled, untouched, changed
        FROM near_subject f JOIN new_entities o ON o.id = f.object LEFT JOIN near_relation r ON r.id = f.property
        ANTI JOIN ({PAGES}) p ON p.id = f.object WHERE {usable("o.label", language)}
        """,
        divided={"near_subject": "object"},
    )
    window.drop("near", "near_subject", "near_relation", "page_class", "sorted_near", "changed_near")


_NEAR = """
    CREATE OR REPLACE TABLE page_class AS {classes};
    CREATE OR REPLACE TABLE changed_near AS
    FROM changed QUALIFY row_number() OVER (PARTITION BY property ORDER BY subject) <= {pool};
    CREATE OR REPLACE TABLE sorted_near AS
    FROM (
        SELECT subject, property, object FROM similar_fact
        UNION SELECT subject, property, object FROM pooled
        UNION SELECT subject, property, object FROM changed_near
    ) ORDER BY property, subject;
    CREATE OR REPLACE TABLE near AS
    SELECT rowid AS number, *,
           (subject, property) IN (SELECT (subject, property) FROM pooled) AS pooled,
           (subject, property) IN (SELECT (subject, property) FROM pooled WHERE untouched) AS untouched,
           (subject, property) IN (SELECT (subject, property) FROM changed_near) AS changed
    FROM sorted_near;
    CREATE OR REPLACE TABLE near_relation AS
    SELECT id, label FROM new_entities WHERE id IN (SELECT property FROM near);
    CREATE OR REPLACE TABLE near_subject AS
    SELECT *, '' AS subject_label, '' AS evidence FROM near LIMIT 0;
    CREATE OR REPLACE TABLE near_fact (
        number BIGINT, subject VARCHAR, subject_label VARCHAR, property VARCHAR, property_label VARCHAR, object VARCHAR,
        object_label VARCHAR, object_aliases VARCHAR[], evidence VARCHAR, pooled BOOLEAN, untouched BOOLEAN,
        changed BOOLEAN)
"""
