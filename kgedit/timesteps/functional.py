"""Keeps only changes of functional relations, if a verdict is requested (kgedit.engines.functionality).

The WikiBigEdit paper judges each subject's own values: one that has several now is dropped. A relation that usually has
several values, such as an award, passes that filter for subjects with only one known value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kgedit.engines.functionality import BOUNDS, declared_relations, measured_relations, told
from kgedit.engines.protocol import Engine
from kgedit.store.window import Window
from kgedit.timesteps.funnel import Filter, Filtered, reason_column, split_by_reason

_FILTERS: dict[str, tuple[Filter, ...]] = {
    "data": (
        ("too few subjects to measure the relation", "measured IS NULL"),
        ("relation of several values by the data", "measured = 'several'"),
    ),
    "constraints": (("relation without a single-value constraint", "declared IS NULL"),),
}


def keep_functional(engine: Engine, window: Window, kept: pa.Table, by: str) -> Filtered:
    """Keep changes of relations that have one value, temporal or not.

    Args:
        engine: Counts values, or finds constraints.
        window: Both snapshots; the newer one decides whether a relation is functional.
        kept: At least the columns subject and property.
        by: "data" or "constraints"; "values" keeps all.

    Returns:
        Both parts have the columns of `kept`, ordered by subject and property.
    """
    if by == "values":
        return Filtered(kept, kept.slice(0, 0).append_column("reason", pa.nulls(0, pa.string())), {})
    asked = kept.select(["property"])
    if by == "data":
        answer = engine.functional_by_data(window, asked, min_subjects=BOUNDS.subjects)
        claims = "(SELECT * FROM new_claims WHERE property IN (SELECT property FROM asked))"
        verdicts = measured_relations("answer", claims)
    else:
        answer, verdicts = engine.functional_by_constraint(window), declared_relations("answer")
    judged = window.select(
        f"""
        SELECT kept.*, {reason_column(_FILTERS[by])}
        FROM kept LEFT JOIN ({verdicts}) USING (property) ORDER BY subject, property
        """,  # noqa: S608 - our own names
        kept=kept,
        asked=asked,
        answer=answer,
    )
    return split_by_reason(judged, _FILTERS[by])


def told_verdict(by: str) -> dict[str, Any]:
    """Entry of the manifest for the verdict that a profile used."""
    return {"verdict": by} | (told(BOUNDS) if by == "data" else {})
