"""Conflicts of a memory: several values at once of a relation that has one for other subjects."""

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
"""subject, relation and object as ids; case_id of the edit that brought the value; since when it holds."""

_MOST_WITH_SEVERAL = 0.1
"""Share of a relation's rows up to which several values at once are the exception."""


def find_conflicts(facts: FactTable, relation_ids: Sequence[str]) -> pa.Table:
    """Rows with several values that hold, of relations where at most one row in ten has them.

    Returns:
        A table with the schema CONFLICTS, one row for each value, in the order in which rows were learned.
    """
    counts, relations = facts.several_hold()
    if not len(counts):
        return CONFLICTS.empty_table()
    rows = np.bincount(relations, weights=counts > 0)
    several = np.bincount(relations, weights=counts > 1)
    exceptional = several <= np.maximum(1, _MOST_WITH_SEVERAL * rows)
    found = []
    for row in np.flatnonzero((counts > 1) & exceptional[relations]).tolist():
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
