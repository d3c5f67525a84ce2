"""Filters as data: an ordered list of reasons with conditions. The first condition that holds drops a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

Filter = tuple[str, str]
"""Reason, and the condition in DuckDB's SQL under which a row is dropped."""


class Filtered(NamedTuple):
    """Rows that passed all filters, and the others.

    Attributes:
        kept: Rows that passed.
        dropped: The other rows, with a column ``reason``.
        funnel: Number of dropped rows by reason, in the order of the filters.
        questions: Axis -> results of the final filters for its questions (kgedit.timesteps.final_filters.count_faults);
            empty if the filters judge no questions.
    """

    kept: pa.Table
    dropped: pa.Table
    funnel: dict[str, int]
    questions: Mapping[str, dict[str, Any]] = MappingProxyType({})


def reason_column(filters: Sequence[Filter]) -> str:
    """SQL of a column ``reason``: the first filter whose condition holds, or null."""
    return "CASE " + " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in filters) + " END AS reason"


def split_by_reason(judged: pa.Table, filters: Sequence[Filter]) -> Filtered:
    """Split rows by their column ``reason``."""
    passed = pc.is_null(judged["reason"])
    dropped = judged.filter(pc.invert(passed))
    counts = {row["values"]: row["counts"] for row in pc.value_counts(dropped["reason"]).to_pylist()}
    funnel = {reason: counts.get(reason, 0) for reason, _ in filters}
    return Filtered(judged.filter(passed).drop_columns(["reason"]), dropped, funnel)
