"""Conflicts in a memory: several current values of a relation that has one value for other subjects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kgedit.graph_memory.facts import FactTable

CONFLICTS = pa.schema(
    [
        (name, pa.string())
        for name in ("subject", "subject_label", "relation", "object", "object_label", "case_id", "since")
    ]
)
"""subject, relation and object are ids; case_id is the edit that added the value; since is its start."""

_MOST_WITH_SEVERAL = 0.1
"""Largest share of a relation's rows with several values for which several values count as a conflict."""


def find_conflicts(facts: FactTable, relation_ids: Sequence[str]) -> pa.Table:
    """Find rows with several current values, of relations where at most one row in ten has them.

    Returns:
        A table with the schema CONFLICTS: one row per value, in the order in which rows were learned.
    """
    relations = facts.relations_of(np.arange(facts.rows, dtype=np.int32))
    found = []
    for row in sorted(conflicting_rows(facts)):
        subject = facts.subject_of(row)
        found += [
            {
                "subject": facts.ids[subject],
                "subject_label": facts.label(subject),
                "relation": relation_ids[int(relations[row])],
                "object": facts.ids[value.thing],
                "object_label": value.label,
                "case_id": value.case_id,
                "since": value.since,
            }
            for value in facts.values(row)
        ]
    return pa.Table.from_pylist(found, schema=CONFLICTS)


def conflicting_rows(facts: FactTable) -> frozenset[int]:
    """Rows with several current values, of relations where at most one row in ten has them."""
    counts, relations = facts.several_hold()
    if not len(counts):
        return frozenset()
    rows = np.bincount(relations, weights=counts > 0)
    several = np.bincount(relations, weights=counts > 1)
    exceptional = several <= np.maximum(1, _MOST_WITH_SEVERAL * rows)
    return frozenset(np.flatnonzero((counts > 1) & exceptional[relations]).tolist())
