"""Whether properties are functional: by a snapshot's statements, compared with the constraints of Wikidata's editors.

Both give one of VERDICTS. Constraints alone miss P54, P286, P488, P39 and P102 (WikiFactDiff, appendix A, uses only
constraints), and a slice of Wikidata may contain no property entities at all; data alone make an outdated relation look
functional.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.store.engine import literal
from kgedit.store.snapshots import RELATIONS, Snapshot
from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.wikidata.ids import (
    EXCEPTION_TO_CONSTRAINT,
    POINT_IN_TIME,
    SINGLE_BEST_VALUE,
    SINGLE_VALUE,
    TIME_QUALIFIERS,
)

VERDICTS = ("temporal", "single", "several")
"""temporal: one value at a time, with values in succession. single: one value. several: any other property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Thresholds for a property to count as functional.

    Attributes:
        subjects: Minimum number of subjects; properties with fewer have no verdict from the data.
        functional: Minimum share of subjects with one current value, in [0, 1].
        dated: Minimum share of the property's statements with a start, an end or a point in time for one value at a
            time to count as values in succession, in [0, 1].
    """

    subjects: int = 5
    functional: float = 0.95
    dated: float = 0.5

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            StoreError: if a share is not in [0, 1].
        """
        for name in ("functional", "dated"):
            if not 0 <= getattr(self, name) <= 1:
                raise StoreError(f"The share {name} is {getattr(self, name)}. Give a number from 0 to 1.")


BOUNDS = Bounds()


def stated_relations(window: Window, condition: str = "true") -> str:
    """SQL query of the statements of each property of the newer snapshot that are not deprecated and have a value.

    Args:
        window: The query is for its connection. If its snapshots are parts, the numbers of the whole ones count.
        condition: SQL condition for the properties.

    Returns:
        SQL with the columns property, stated (number of statements) and dated (those with a start, an end or a point in
        time, current or not).
    """
    if window.new.is_part:
        return f"SELECT property, stated, dated FROM {literal(window.new.measured(RELATIONS))} WHERE {condition}"
    return f"""
        SELECT property, count(*) AS stated, count(*) FILTER (start_precision IS NOT NULL OR end_precision IS NOT NULL
                                                              OR point_precision IS NOT NULL) AS dated
        FROM new_claims WHERE rank <> 'deprecated' AND snak = 'value' AND {condition} GROUP BY property
    """


def measured_relations(counted: str, stated: str, bounds: Bounds = BOUNDS) -> str:
    """SQL query of the verdicts by data, for properties of a snapshot with enough subjects.

    Args:
        counted: SQL of a relation with the columns FUNCTIONAL_BY_DATA (kgedit.timesteps.engines).
        stated: From stated_relations, for the same snapshot.
        bounds: Thresholds.

    Returns:
        SQL with the columns of `counted`, dated_claims (share of all statements that are not deprecated and have a
        value, current or not, with a start, an end or a point in time) and measured (one of VERDICTS).
    """
    return f"""
        WITH stated AS (SELECT property, dated / stated AS dated_claims FROM ({stated}))
        SELECT property, subjects, functional, coalesce(dated_claims, 0) AS dated_claims,
               CASE WHEN functional < {bounds.functional} THEN 'several'
                    WHEN dated_claims >= {bounds.dated} THEN 'temporal' ELSE 'single' END AS measured
        FROM {counted} LEFT JOIN stated USING (property)
    """


def current_relations(window: Window) -> str:
    """SQL query of the facts of each property of the newer snapshot, as stated_relations.

    Returns:
        SQL with the columns property, facts (number of facts) and dated_facts (those with a start or end time).
    """
    if window.new.is_part:
        return f"SELECT property, facts, dated_facts FROM {literal(window.new.measured(RELATIONS))} WHERE facts > 0"
    return """
        SELECT property, count(*) AS facts,
               count(*) FILTER (start_precision IS NOT NULL OR end_precision IS NOT NULL) AS dated_facts
        FROM new_facts GROUP BY property
    """


def declared_relations(declared: str) -> str:
    """SQL query of the properties with a single-value constraint of Wikidata's editors.

    Args:
        declared: SQL of a relation with the columns FUNCTIONAL_BY_CONSTRAINT (kgedit.timesteps.engines).

    Returns:
        SQL with the columns property, constraints (their kinds, sorted), temporal (whether a time is among the
        separators), by_point (whether the point in time is) and declared (one of VERDICTS).
    """
    return f"""
        SELECT property, list_sort(list(DISTINCT "constraint")) AS constraints,
               bool_or(list_has_any(separators, {list(TIME_QUALIFIERS)})) AS temporal,
               bool_or(list_contains(separators, '{POINT_IN_TIME}')) AS by_point,
               CASE WHEN temporal THEN 'temporal' ELSE 'single' END AS declared
        FROM {declared} GROUP BY property
    """


EXCEPTIONS = f"""
    SELECT DISTINCT subject AS property FROM new_claims
    WHERE property = 'P2302' AND rank <> 'deprecated' AND object IN ('{SINGLE_VALUE}', '{SINGLE_BEST_VALUE}')
      AND list_contains(qualifier_properties, '{EXCEPTION_TO_CONSTRAINT}')
"""
"""SQL of properties whose constraint names entities that may violate it (P2303); the store does not keep these."""


def measure_functionality(snapshot: Snapshot, *, bounds: Bounds = BOUNDS, disagreeing: bool = False) -> pa.Table:
    """Measure each property of a snapshot with enough subjects; one row each, ordered by id.

    Args:
        snapshot: Snapshot whose statements are counted.
        bounds: Thresholds.
        disagreeing: Whether to return only properties whose two verdicts differ.

    Returns:
        Columns property, property_label, subjects, functional, dated (share of the facts whose statement has a start or
        end time), dated_claims and measured (measured_relations), declared (one of VERDICTS; "several" without a
        constraint), constraints and temporal (declared_relations), and exceptions (whether a constraint names any;
        null without a constraint).
    """
    engine = StoreEngine()
    with Window(snapshot, snapshot, spill=snapshot.folder.parent / ".spill") as window:
        counts = window.select(current_relations(window))
        return window.select(
            f"""
            WITH share AS (SELECT property, dated_facts / facts AS dated FROM counts)
            SELECT property, coalesce(label, property) AS property_label, subjects, functional, dated, dated_claims,
                   measured, coalesce(declared, 'several') AS declared, coalesce(constraints, []) AS constraints,
                   temporal, CASE WHEN declared IS NOT NULL THEN property IN ({EXCEPTIONS}) END AS exceptions
            FROM ({measured_relations("counted", stated_relations(window), bounds)}) JOIN share USING (property)
            LEFT JOIN ({declared_relations("constrained")}) USING (property)
            LEFT JOIN (SELECT id, label FROM new_entities WHERE kind = 'property') ON id = property
            WHERE {"measured <> coalesce(declared, 'several')" if disagreeing else "true"}
            ORDER BY property[1], property[2:]::BIGINT
            """,
            counts=counts,
            counted=engine.functional_by_data(window, counts, min_subjects=bounds.subjects),
            constrained=engine.functional_by_constraint(window),
        )


def bounds_record(bounds: Bounds) -> dict[str, float]:
    """The bounds as recorded in provenance."""
    return asdict(bounds)
