"""How functional each property is in a snapshot's facts: the store's answer, beside what Wikidata's editors declare.

Constraints alone miss P54, P286, P488, P39 and P102 (WikiFactDiff, appendix A, honours them only).
"""

from __future__ import annotations

import pyarrow as pa

from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import SINGLE_BEST_VALUE, SINGLE_VALUE, TIME_QUALIFIERS


def measure_functionality(snapshot: Snapshot, *, min_subjects: int = 5) -> pa.Table:
    """One row for each property of a snapshot with enough subjects, by id.

    Args:
        snapshot: Whose facts are counted.
        min_subjects: Leave out properties of fewer subjects.

    Returns:
        Columns property, property_label, subjects, functional (share of the subjects with exactly one current object),
        dated (share of the facts whose statement has a start or end time), declared (kinds of single-value constraint),
        temporal (whether a time is among their separators; null without a constraint).
    """
    query = f"""
        WITH one AS (
            SELECT property, subject, count(*) AS objects,
                   count(*) FILTER (start_precision IS NOT NULL OR end_precision IS NOT NULL) AS dated
            FROM {literal(snapshot.facts)} GROUP BY property, subject
        ), measured AS (
            SELECT property, count(*) AS subjects, count(*) FILTER (objects = 1) / count(*) AS functional,
                   sum(dated) / sum(objects) AS dated
            FROM one GROUP BY property HAVING count(*) >= $min_subjects
        ), declared AS (
            SELECT subject AS property,
                   list_sort(list(DISTINCT CASE object WHEN '{SINGLE_VALUE}' THEN 'single value'
                                                       ELSE 'single best value' END)) AS declared,
                   bool_or(list_has_any(separators, {list(TIME_QUALIFIERS)})) AS temporal
            FROM {literal(snapshot.claims)}
            WHERE property = 'P2302' AND rank <> 'deprecated' AND object IN ('{SINGLE_VALUE}', '{SINGLE_BEST_VALUE}')
            GROUP BY subject
        )
        SELECT property, coalesce(label, property) AS property_label, subjects, functional, dated,
               coalesce(declared, []) AS declared, temporal
        FROM measured LEFT JOIN declared USING (property)
        LEFT JOIN (SELECT id, label FROM {literal(snapshot.entities)} WHERE kind = 'property') ON id = property
        ORDER BY property[1], property[2:]::BIGINT
    """  # noqa: S608 - our own names; paths through literal()
    with open_engine(snapshot.folder.parent / ".spill") as connection:
        measured: pa.Table = connection.sql(query, params={"min_subjects": min_subjects}).to_arrow_table()
    return measured
