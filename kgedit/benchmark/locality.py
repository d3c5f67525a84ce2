"""Locality probes: for each edit an unchanged fact with the same relation, a similar subject and another object.

Neither its subject nor its object was edited in the window. Similarity is shared rare facts (kgedit.store.similarity);
where a subject shares none, the subject with the most similar label, as in WikiBigEdit, among unchanged facts.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from kgedit.benchmark.labels import usable
from kgedit.benchmark.window import Window
from kgedit.store.engine import select
from kgedit.store.similarity import SIMILAR, find_similar_facts, find_static_facts

CANDIDATES = 5
"""Similar facts per edit before the label filters."""


class Locality(NamedTuple):
    """Unchanged facts, labelled.

    Attributes:
        static_facts: Those of the edits' relations that a probe was chosen from, ordered by property and subject.
        probes: At most one per case, with columns case_id, score and basis ("graph" or "label"), ordered by case_id.
    """

    static_facts: pa.Table
    probes: pa.Table


def find_locality(window: Window, cases: pa.Table, *, pool: int, max_df: int) -> Locality:
    """Unchanged facts of the relations of some cases, and of these a probe for each case where there is one.

    Args:
        window: Both snapshots; tables of kgedit.store.similarity are kept in its connection.
        cases: From make_cases.
        pool: Unchanged facts of each relation to choose from by label.
        max_df: Facts shared by more items do not count for similarity.
    """
    find_static_facts(window.connection, cases.select(["case_id", "subject", "property"]))
    static = window.select(
        "SELECT * FROM static QUALIFY row_number() OVER (PARTITION BY property ORDER BY subject) <= $pool "
        "ORDER BY property, subject",
        {"pool": pool},
    )
    count = window.select("SELECT count(*) AS items FROM old_entities WHERE kind = 'item'")
    found = find_similar_facts(window.connection, items=count["items"][0].as_py(), max_df=max_df, k=CANDIDATES)
    similar = _label(window, pa.Table.from_batches(found, SIMILAR))
    static = _label(window, static)
    untouched = window.select(
        "SELECT * FROM static WHERE subject NOT IN (FROM edited) AND object NOT IN (FROM edited)", static=static
    )
    return Locality(static, choose_probes(cases, similar, untouched))


def choose_probes(cases: pa.Table, similar_facts: pa.Table, untouched: pa.Table) -> pa.Table:
    """The most similar fact of each case; where no similar one is known, that of the subject most alike in name.

    Args:
        cases: Columns case_id, subject, subject_label, property, object, old_objects.
        similar_facts: Labelled facts with case_id and score, of subjects that share facts with the case's.
        untouched: Labelled facts of the same relations whose subjects and objects were not edited.

    Returns:
        The facts' columns with case_id, score and basis, ordered by case_id.
    """
    return select(
        """
        WITH numbered AS MATERIALIZED (
            SELECT *, row_number() OVER (ORDER BY property, subject) AS number FROM untouched
        ), scored AS MATERIALIZED (
            SELECT c.case_id, u.number, jaro_winkler_similarity(c.subject_label, u.subject_label) AS score
            FROM (FROM cases ANTI JOIN similar_facts USING (case_id)) c JOIN numbered u USING (property)
            WHERE u.subject <> c.subject AND u.object <> c.object AND NOT list_contains(c.old_objects, u.object)
        ), best AS (
            SELECT case_id, max(score) AS score FROM scored GROUP BY case_id
        ), closest AS (
            SELECT case_id, score, min(number) AS number FROM scored JOIN best USING (case_id, score) GROUP BY ALL
        )
        FROM (
            SELECT *, 'graph' AS basis FROM similar_facts
            QUALIFY row_number() OVER (PARTITION BY case_id ORDER BY score DESC, subject) = 1
            UNION ALL BY NAME
            SELECT c.case_id, n.* EXCLUDE (number), c.score, 'label' AS basis
            FROM closest c JOIN numbered n USING (number)
        ) ORDER BY case_id
        """,
        cases=cases.select(["case_id", "subject", "subject_label", "property", "object", "old_objects"]),
        similar_facts=similar_facts,
        untouched=untouched,
    )


# A row of `scored` is a number and a score: each such case is compared with all unchanged facts of its relation.


def _label(window: Window, found: pa.Table) -> pa.Table:
    """Facts with their labels of the newer snapshot, and of them those whose labels can be asked for."""
    return window.select(
        f"""
        WITH entity AS MATERIALIZED (
            SELECT id, label, aliases FROM new_entities
            WHERE id IN (SELECT subject FROM found UNION SELECT object FROM found UNION SELECT property FROM found)
        )
        SELECT f.*, s.label AS subject_label, coalesce(p.label, f.property) AS property_label, o.label AS object_label,
               coalesce(o.aliases, []) AS object_aliases
        FROM found f JOIN entity s ON s.id = f.subject JOIN entity o ON o.id = f.object
        LEFT JOIN entity p ON p.id = f.property
        WHERE {usable("s.label")} AND {usable("o.label")}
        """,  # noqa: S608 - our own names and numbers
        found=found,
    )
