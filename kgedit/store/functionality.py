"""How functional each property is: what a snapshot's statements show, beside what Wikidata's editors declare.

Both say one of VERDICTS. Constraints alone miss P54, P286, P488, P39 and P102 (WikiFactDiff, appendix A, honours them
only), and a slice of Wikidata may hold no property entities at all; the data alone take a relation that nobody kept up
for a functional one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pyarrow as pa

from kgedit.errors import StoreError
from kgedit.store.engine import literal, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.wikidata.ids import EXCEPTION_TO_CONSTRAINT, SINGLE_BEST_VALUE, SINGLE_VALUE, TIME_QUALIFIERS

VERDICTS = ("temporal", "single", "several")
"""temporal: one value at a time, and values follow one another. single: one value. several: any other property."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """From when on the statements of a snapshot show a property to be functional.

    Attributes:
        subjects: Fewest subjects; of a property with fewer the data say nothing.
        functional: Least share of them with one current value, in [0, 1].
        dated: Least share of the property's statements with a start, an end or a point in time from which one value at
            a time is taken for one after another, in [0, 1].
    """

    subjects: int = 5
    functional: float = 0.95
    dated: float = 0.5

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            StoreError: if a share is none.
        """
        for name in ("functional", "dated"):
            if not 0 <= getattr(self, name) <= 1:
                raise StoreError(f"The share {name} is {getattr(self, name)}. Give a number from 0 to 1.")


BOUNDS = Bounds()


def measured_relations(facts: str, claims: str, bounds: Bounds = BOUNDS) -> str:
    """A query: the properties of some facts with enough subjects, and what the statements show.

    Args:
        facts: SQL of a relation with the columns FACTS.
        claims: SQL of a relation with the columns CLAIMS, of the same snapshot.
        bounds: What counts as functional.

    Returns:
        SQL with the columns property, subjects, functional (share of the subjects with exactly one current object),
        dated (share of the facts whose statement has a start or end time), dated_claims (share of all statements that
        are not deprecated and have a value, current or not, with a start, an end or a point in time) and measured (one
        of VERDICTS).
    """
    return f"""
        WITH one AS (
            SELECT property, subject, count(*) AS objects,
                   count(*) FILTER (start_precision IS NOT NULL OR end_precision IS NOT NULL) AS dated
            FROM {facts} GROUP BY property, subject
        ), current AS (
            SELECT property, count(*) AS subjects, count(*) FILTER (objects = 1) / count(*) AS functional,
                   sum(dated) / sum(objects) AS dated
            FROM one GROUP BY property HAVING count(*) >= {bounds.subjects}
        ), stated AS (
            SELECT property, count(*) FILTER (start_precision IS NOT NULL OR end_precision IS NOT NULL
                                              OR point_precision IS NOT NULL) / count(*) AS dated_claims
            FROM {claims} WHERE rank <> 'deprecated' AND snak = 'value' GROUP BY property
        )
        SELECT property, subjects, functional, dated, coalesce(dated_claims, 0) AS dated_claims,
               CASE WHEN functional < {bounds.functional} THEN 'several'
                    WHEN dated_claims >= {bounds.dated} THEN 'temporal' ELSE 'single' END AS measured
        FROM current LEFT JOIN stated USING (property)
    """  # noqa: S608 - our own names and numbers


SINGLE_VALUE_CONSTRAINT = f"""
    property = 'P2302' AND rank <> 'deprecated' AND snak = 'value'
    AND object IN ('{SINGLE_VALUE}', '{SINGLE_BEST_VALUE}')
"""
"""SQL: whether a claim declares its subject, a property, to have one value."""


def declared_relations(claims: str) -> str:
    """A query: the properties that Wikidata's editors declare to have one value.

    Args:
        claims: SQL of a relation with the columns CLAIMS.

    Returns:
        SQL with the columns property, constraints (their kinds, sorted), temporal (whether a time is among the
        separators), exceptions (whether a constraint names entities that may break it, P2303; which ones the store does
        not keep) and declared (one of VERDICTS).
    """
    return f"""
        SELECT subject AS property,
               list_sort(list(DISTINCT CASE object WHEN '{SINGLE_VALUE}' THEN 'single value'
                                                   ELSE 'single best value' END)) AS constraints,
               bool_or(list_has_any(separators, {list(TIME_QUALIFIERS)})) AS temporal,
               bool_or(list_contains(qualifier_properties, '{EXCEPTION_TO_CONSTRAINT}')) AS exceptions,
               CASE WHEN bool_or(list_has_any(separators, {list(TIME_QUALIFIERS)})) THEN 'temporal'
                    ELSE 'single' END AS declared
        FROM {claims} WHERE {SINGLE_VALUE_CONSTRAINT} GROUP BY subject
    """  # noqa: S608 - our own names


def measure_functionality(snapshot: Snapshot, *, bounds: Bounds = BOUNDS, disagreeing: bool = False) -> pa.Table:
    """One row for each property of a snapshot with enough subjects, by id.

    Args:
        snapshot: Whose statements are counted.
        bounds: What counts as functional.
        disagreeing: Only the properties of which the two verdicts differ.

    Returns:
        Columns property, property_label, subjects, functional, dated, dated_claims and measured (measured_relations),
        declared (one of VERDICTS; "several" without a constraint), constraints, temporal and exceptions
        (declared_relations; null without a constraint).
    """
    facts, claims = literal(snapshot.facts), literal(snapshot.claims)
    query = f"""
        SELECT property, coalesce(label, property) AS property_label, subjects, functional, dated, dated_claims,
               measured, coalesce(declared, 'several') AS declared, coalesce(constraints, []) AS constraints, temporal,
               exceptions
        FROM ({measured_relations(facts, claims, bounds)}) LEFT JOIN ({declared_relations(claims)}) USING (property)
        LEFT JOIN (SELECT id, label FROM {literal(snapshot.entities)} WHERE kind = 'property') ON id = property
        WHERE {"measured <> coalesce(declared, 'several')" if disagreeing else "true"}
        ORDER BY property[1], property[2:]::BIGINT
    """  # noqa: S608 - our own names; paths through literal()
    with open_engine(snapshot.folder.parent / ".spill") as connection:
        found: pa.Table = connection.sql(query).to_arrow_table()
    return found


def told(bounds: Bounds) -> dict[str, float]:
    """The bounds as they are recorded."""
    return asdict(bounds)
