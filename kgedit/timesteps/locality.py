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
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from kgedit.store.engine import select
from kgedit.store.window import Window
from kgedit.timesteps.engines.protocol import Engine, SimilarSubjects
from kgedit.timesteps.labels import pages_among, usable
from kgedit.timesteps.tables import ALIKE, CHANGED, EVIDENCE_RANK, FACT, find_evidence
from kgedit.wording.languages import ENGLISH, Language

_FILE = Path(__file__).parents[1] / "data" / "relation_families.yaml"


@cache
def read_families() -> dict[str, list[str]]:
    """The shipped families: name -> properties."""
    families: dict[str, list[str]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
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


class Locality(NamedTuple):
    """Unchanged facts, labelled.

    Attributes:
        static_facts: Facts of the edits' relations, limited per relation, ordered by property and subject.
        probes: At most one per case, with columns case_id, score, basis ("changed", "graph", "label" or "relation") and
            evidence, ordered by case_id.
    """

    static_facts: pa.Table
    probes: pa.Table


def find_locality(
    engine: Engine,
    window: Window,
    cases: pa.Table,
    *,
    pool: int,
    max_df: int,
    max_uses: int,
    changed: pa.Table | None = None,
    language: Language = ENGLISH,
) -> Locality:
    """Find unchanged facts of the relations of some cases, and choose a probe for each case if possible.

    Args:
        engine: Finds similar subjects and unchanged facts.
        window: Both snapshots.
        cases: From make_cases.
        pool: Number of unchanged facts of each relation to choose from by label.
        max_df: Maximum number of items that may share a fact for it to count for similarity.
        max_uses: Maximum number of cases with the same fact.
        changed: From find_changed_facts; preferred. None means unchanged facts only.
        language: Language of the labels.
    """
    edits = cases.select(["case_id", "subject", "property"])
    found = engine.similar_subjects(window, edits, max_df=max_df, k=CANDIDATES, pool=pool)
    facts = _describe(window, found, pool, _NONE if changed is None else changed, language)
    probes = choose_probes(
        cases,
        found.similar,
        facts,
        compare_relations(window, edits.select(["property"])),
        _classes(window, cases, facts),
        max_uses=max_uses,
        connection=window.connection,
    )
    return Locality(facts.filter(facts["pooled"]).select(_FACT), probes)


_FACT = [*FACT, "object_aliases"]


def choose_probes(
    cases: pa.Table,
    similar_facts: pa.Table,
    facts: pa.Table,
    relations: pa.Table,
    classes: pa.Table,
    *,
    max_uses: int,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> pa.Table:
    """Choose a fact for each case: similar by facts, else by label, else by the relation's family and subject's class.

    Args:
        cases: Columns case_id, subject, subject_label, property, object and old_objects.
        classes: Columns id and classes (a list), of the subjects of cases and facts.
        similar_facts: Columns case_id, subject, property, object and score.
        facts: Facts with labels, evidence, ``pooled``, ``untouched`` and ``changed``, ordered by property and subject.
            For a case that they are not similar to, only those that are pooled and untouched, or changed, are used.
        relations: Columns property, other and likeness; pairs of one family.
        max_uses: Maximum number of cases with the same fact.
        connection: DuckDB connection to use; None opens a new one.

    Returns:
        The facts' columns with case_id, score, basis and evidence, ordered by case_id.
    """
    numbers = pa.array(np.arange(cases.num_rows))
    waiting = cases.select(["subject", "subject_label", "property", "object", "old_objects"]).append_column(
        "place", numbers
    )
    facts = facts.append_column("number", pa.array(np.arange(facts.num_rows)))
    uses = np.zeros(facts.num_rows, dtype=np.int64)
    similar_facts = select(
        "SELECT place, number, score FROM similar_facts JOIN cases USING (case_id) "
        "JOIN facts USING (subject, property, object) ORDER BY place",
        similar_facts=similar_facts,
        cases=cases.select(["case_id"]).append_column("place", numbers),
        facts=facts,
    )
    any_fact = facts.select(_ELIGIBLE_BY)
    compared = any_fact.filter(pc.or_(facts["pooled"], facts["changed"]))
    their_classes = classes.filter(pc.is_in(classes["id"], value_set=compared["subject"]))
    chosen = []
    for basis, query in _WAYS.items():
        of_parts = _similar_parts(waiting, similar_facts, any_fact) if basis == "graph" else _parts(waiting, classes)
        shared = {"facts": compared, "relations": relations, "their_classes": their_classes}
        candidates = pa.concat_tables(
            select(_RANKED.format(query=query), {"candidates": CANDIDATES}, connection=connection, **(shared | of_part))
            for of_part in of_parts
        )
        assigned = assign(candidates, uses, cases=cases.num_rows, max_uses=max_uses)
        chosen.append(assigned.append_column("basis", pa.array([basis] * assigned.num_rows, pa.string())))
        waiting = select(
            "SELECT * FROM waiting ANTI JOIN assigned USING (place) ORDER BY place", waiting=waiting, assigned=assigned
        )
    return select(
        f"SELECT case_id, {', '.join(_FACT)}, score, basis, evidence FROM chosen "
        "JOIN cases USING (place) JOIN facts f USING (number) ORDER BY case_id",
        chosen=pa.concat_tables(chosen),
        cases=cases.select(["case_id"]).append_column("place", numbers),
        facts=facts,
    )


def _similar_parts(waiting: pa.Table, similar_facts: pa.Table, facts: pa.Table) -> Iterator[dict[str, pa.Table]]:
    """Yield parts of cases, at least one, each with its similar facts, which are ordered by the place of the case."""
    of_case = similar_facts["place"].to_numpy()
    for start in range(0, max(waiting.num_rows, 1), _SIMILAR_AT_ONCE):
        part = waiting.slice(start, _SIMILAR_AT_ONCE)
        places = part["place"].to_numpy()
        first, last = np.searchsorted(of_case, [places[0], places[-1] + 1]) if len(places) else (0, 0)
        similar = similar_facts.slice(first, last - first)
        yield {"waiting": part, "similar_facts": similar, "facts": facts.take(similar["number"].unique())}


def _parts(waiting: pa.Table, classes: pa.Table) -> Iterator[dict[str, pa.Table]]:
    """Yield parts of cases, at least one, each with the classes of its subjects."""
    described = pc.index_in(waiting["subject"], value_set=classes["id"])
    for start in range(0, max(waiting.num_rows, 1), _CASES_AT_ONCE):
        own = described.slice(start, _CASES_AT_ONCE).unique().drop_null()
        yield {"waiting": waiting.slice(start, _CASES_AT_ONCE), "own_classes": classes.take(own)}


_SIMILAR_AT_ONCE = 8_000
"""Cases whose facts about similar subjects are ranked at once, at most CANDIDATES each."""

_CASES_AT_ONCE = 500
"""Cases whose other candidates are ranked at once: each is compared with a thousand facts, or a few thousand."""

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

_WAYS = {
    CHANGED: """
        SELECT place, number, jaro_winkler_similarity(w.subject_label, f.subject_label) AS score, 0.0 AS likeness
        FROM waiting w JOIN facts f USING (property)
        WHERE f.changed AND f.subject NOT IN (w.subject, w.object) AND f.object NOT IN (w.subject, w.object)
              AND NOT list_contains(w.old_objects, f.object)
    """,
    "graph": "SELECT place, number, score, 0.0 AS likeness FROM similar_facts SEMI JOIN waiting USING (place)",
    "label": f"""
        SELECT place, number, jaro_winkler_similarity(w.subject_label, f.subject_label) AS score, 0.0 AS likeness
        FROM waiting w JOIN facts f USING (property) WHERE {_ELIGIBLE}
    """,
    "relation": f"""
        SELECT place, number, jaro_winkler_similarity(w.subject_label, f.subject_label) AS score, likeness
        FROM waiting w JOIN (
            FROM relations
            QUALIFY row_number() OVER (PARTITION BY property ORDER BY likeness DESC, other) <= {_RELATIONS}
        ) r USING (property) JOIN facts f ON f.property = r.other
        JOIN own_classes own ON own.id = w.subject JOIN their_classes their ON their.id = f.subject
        WHERE {_ELIGIBLE} AND list_has_any(own.classes, their.classes)
    """,
}
"""Basis -> SQL of candidates for the cases that have no probe yet."""

_RANKED = f"""
    WITH best AS (
        SELECT place, max(struct_pack(likeness, alike := round(score, {ALIKE}), evidence := {EVIDENCE_RANK}, score,
                                      number := -number), $candidates) AS choices
        FROM ({{query}}) JOIN (SELECT number, evidence FROM facts) USING (number) GROUP BY place
    )
    SELECT place, -choice.number AS number, choice.score AS score, rank
    FROM (SELECT place, unnest(choices) AS choice, generate_subscripts(choices, 1) AS rank FROM best)
    ORDER BY place, rank
"""
"""The best candidates of each case; the others, which are all facts of a relation for each case, are dropped."""


def assign(candidates: pa.Table, uses: np.ndarray[Any, np.dtype[np.int64]], *, cases: int, max_uses: int) -> pa.Table:
    """Assign to each case its best candidate that is not used up.

    First choices are assigned first, then second ones; if several cases compete for a fact, higher scores win.

    Args:
        candidates: Columns place (of the case), number (of the fact), score and rank (1 is the first choice).
        uses: Number of uses by the fact's number; updated in place.
        cases: Number of cases.
        max_uses: Maximum number of cases with the same fact.

    Returns:
        Columns place, number and score; at most one row per case.
    """
    place, number, score, rank = (candidates[name].to_numpy() for name in ("place", "number", "score", "rank"))
    served = np.zeros(cases, dtype=bool)
    taken = [np.zeros(0, dtype=np.int64)]
    for turn in np.unique(rank):
        asking = np.flatnonzero((rank == turn) & ~served[place])
        # Grouped by fact, the best score first; ties go to the earlier case, so the order of candidates does not
        # matter.
        asking = asking[np.lexsort((place[asking], -score[asking], number[asking]))]
        _, first, inverse = np.unique(number[asking], return_index=True, return_inverse=True)
        # Number of earlier rows with the same fact in this turn.
        before = np.arange(len(asking)) - first[inverse]
        accepted = asking[before + uses[number[asking]] < max_uses]
        served[place[accepted]] = True
        np.add.at(uses, number[accepted], 1)
        taken.append(accepted)
    return candidates.take(pa.array(np.concatenate(taken))).select(["place", "number", "score"])


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


def _classes(window: Window, cases: pa.Table, facts: pa.Table) -> pa.Table:
    """Classes (P31, in the older snapshot) of the subjects of cases and facts that have one."""
    return window.select(
        """
        SELECT subject AS id, list(object ORDER BY object) AS classes FROM old_facts
        WHERE property = 'P31' AND subject IN (SELECT subject FROM cases UNION SELECT subject FROM facts)
        GROUP BY subject ORDER BY subject
        """,
        cases=cases.select(["subject"]),
        facts=facts.select(["subject"]),
    )


_NONE = pa.table({name: pa.array([], pa.string()) for name in ("subject", "property", "object")})


def _describe(window: Window, found: SimilarSubjects, pool: int, changed: pa.Table, language: Language) -> pa.Table:
    """Static facts, similar and at most `pool` per relation, and changed facts, with labels for questions."""
    fact = select(
        """
        WITH changed_fact AS (
            FROM changed QUALIFY row_number() OVER (PARTITION BY property ORDER BY subject) <= $pool
        ), fact AS (
            SELECT DISTINCT subject, property, object FROM similar_facts
            UNION SELECT subject, property, object FROM pooled
            UNION SELECT subject, property, object FROM changed_fact
        )
        SELECT *, (subject, property) IN (SELECT (subject, property) FROM pooled) AS pooled,
               (subject, property) IN (SELECT (subject, property) FROM pooled WHERE untouched) AS untouched,
               (subject, property) IN (SELECT (subject, property) FROM changed_fact) AS changed
        FROM fact ORDER BY property, subject
        """,
        {"pool": pool},
        similar_facts=found.similar.select(["subject", "property", "object"]),
        pooled=found.static,
        changed=changed,
    )
    ends = select("SELECT subject AS id FROM fact UNION SELECT object FROM fact", fact=fact)
    pages = window.select(pages_among("ends"), ends=ends)
    named = window.select_by_bucket(
        f"""
        SELECT id, label, aliases FROM new_entities
        WHERE id IN (FROM ends) AND id NOT IN (FROM pages) AND {usable("label", language)}
        """,
        divided={"ends": "id"},
        ends=ends,
        pages=pages,
    )
    properties = fact.select(["property"])
    relation = window.select(
        "SELECT id, label FROM new_entities WHERE id IN (SELECT property FROM fact)", fact=properties
    )
    evident = window.select_by_bucket(
        find_evidence("fact"), divided={"fact": "subject"}, fact=fact.select(["subject", "property", "object"])
    )
    fact = window.select(
        """
        SELECT fact.*, evidence FROM fact LEFT JOIN evident USING (subject, property, object)
        ORDER BY property, subject
        """,
        fact=fact,
        evident=evident,
    )
    places = [pc.index_in(fact[end], value_set=named["id"]) for end in ("subject", "object")]
    parts = []
    for start in range(0, max(fact.num_rows, 1), _FACTS_AT_ONCE):
        chunks = [chunk for place in places for chunk in place.slice(start, _FACTS_AT_ONCE).chunks]
        needed = pa.chunked_array(chunks, pa.int32())
        of_part = named.take(needed.unique().drop_null())
        parts.append(select(_NAMED, fact=fact.slice(start, _FACTS_AT_ONCE), named=of_part, relation=relation))
    return pa.concat_tables(parts)


_FACTS_AT_ONCE = 20_000
"""Facts that are joined with their labels at once."""

_NAMED = """
    SELECT f.subject, s.label AS subject_label, f.property, coalesce(p.label, f.property) AS property_label,
           f.object, o.label AS object_label, coalesce(o.aliases, []) AS object_aliases, evidence,
           pooled, untouched, changed
    FROM fact f JOIN named s ON s.id = f.subject JOIN named o ON o.id = f.object
    LEFT JOIN relation p ON p.id = f.property
    ORDER BY f.property, f.subject
"""
