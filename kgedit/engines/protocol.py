"""The questions that an export asks, and the columns of the answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Protocol

import pyarrow as pa

from kgedit.store.window import Window

CHANGED_EDGES = pa.schema(
    [
        ("subject", pa.string()),
        ("property", pa.string()),
        ("old_objects", pa.list_(pa.string())),
        ("new_objects", pa.list_(pa.string())),
        ("item_valued", pa.bool_()),
        ("subject_in_old", pa.bool_()),
        ("subject_in_new", pa.bool_()),
    ]
)
"""One row per subject and property whose current objects differ, ordered by both.

Objects are ids of items and properties, or V... for literals, sorted; those merged since the older snapshot stand under
the id that the newer one redirects to. ``item_valued``: every object on both sides is an item.
"""

TWO_HOPS = pa.schema(
    [(name, pa.string()) for name in ("subject", "first_property", "bridge", "second_property", "object")]
)
"""One row per pair of new facts of which the second starts where the first ends, ordered by all columns."""

FUNCTIONAL_BY_DATA = pa.schema([("property", pa.string()), ("subjects", pa.int64()), ("functional", pa.float64())])
"""One row per property with enough subjects, ordered by property.

``functional``: share of the subjects with exactly one current object in the newer snapshot, in [0, 1].
"""

FUNCTIONAL_BY_CONSTRAINT = pa.schema(
    [("property", pa.string()), ("constraint", pa.string()), ("separators", pa.list_(pa.string()))]
)
"""One row per property, constraint ("single value" or "single best value") and list of separators, ordered by all.

``separators``: properties whose qualifiers tell several values apart, sorted; empty without any.
"""

SIMILAR = pa.schema(
    [*((name, pa.string()) for name in ("case_id", "subject", "property", "object")), ("score", pa.float64())]
)
"""Unchanged facts that suit a case, the best first: ordered by property, case_id, score (descending) and subject.

``score``: sum over the facts that both subjects have in the older snapshot of ln(items / items with that fact), each
rounded to six digits.
"""

STATIC = pa.schema([*((name, pa.string()) for name in ("subject", "property", "object")), ("untouched", pa.bool_())])
"""Unchanged facts, ordered by property and subject.

The subject, an item, has one object of the property in both snapshots, the same item. ``untouched``: neither subject
nor object has a fact that only one of the snapshots has.
"""


CHANGED_STATEMENTS = pa.schema([("subject", pa.string()), ("property", pa.string())])
"""One row per item and property with a changed statement, ordered by both.

Changed: only one of the snapshots has this version (rank, value, qualifiers) of the statement. Statements without a
known value do not count; those of a merged item belong to the item that the newer snapshot redirects to.
"""

NEAREST = pa.schema([("subject", pa.string()), ("neighbour", pa.string()), ("cosine", pa.int64())])
"""The entities most similar to each subject: ordered by subject, cosine (descending) and neighbour, ids by number.

``cosine``: of the TF-IDF vectors (WikiFactDiff, section 4.4), in millionths, at least 1.
"""


class SimilarSubjects(NamedTuple):
    """Unchanged facts around edits.

    Attributes:
        similar: For each edit those about the most similar subjects; columns SIMILAR.
        static: For each of the edits' properties the first ones by subject; columns STATIC.
    """

    similar: pa.Table
    static: pa.Table


class Engine(Protocol):
    """Answers the questions of an export.

    Two questions depend on the profile. What changed: wikibigedit compares current facts (changed_edges), wikifactdiff
    all statements (changed_statements). What is similar: wikibigedit weighs shared facts (similar_subjects),
    wikifactdiff takes the cosine of all features (nearest_entities).

    Every engine gives the same rows in the same order for the same two snapshots, whatever other snapshots there are.

    Attributes:
        name: What `--engine` calls it; recorded in the timestep.
    """

    name: ClassVar[str]

    def check(self, window: Window) -> None:
        """Check that the engine holds both snapshots.

        Raises:
            TimestepError: if it lacks one.
        """
        ...

    def changed_edges(self, window: Window) -> pa.Table:
        """Subjects and properties whose current objects differ; columns CHANGED_EDGES."""
        ...

    def changed_statements(self, window: Window) -> pa.Table:
        """Items and properties whose statements differ; columns CHANGED_STATEMENTS.

        Raises:
            TimestepError: if the engine does not hold all statements.
        """
        ...

    def two_hops(self, window: Window) -> pa.Table:
        """Pairs of new facts that chain; columns TWO_HOPS."""
        ...

    def functional_by_data(self, window: Window, properties: pa.Table, *, min_subjects: int) -> pa.Table:
        """How functional properties are in the newer snapshot; columns FUNCTIONAL_BY_DATA.

        Args:
            window: Both snapshots.
            properties: Column property; which properties to look at.
            min_subjects: Fewest subjects of a property.
        """
        ...

    def functional_by_constraint(self, window: Window) -> pa.Table:
        """Properties that Wikidata's editors declare to have one value; columns FUNCTIONAL_BY_CONSTRAINT.

        The newer snapshot decides, and the older one for properties that the newer lacks.
        """
        ...

    def similar_subjects(self, window: Window, edits: pa.Table, *, max_df: int, k: int, pool: int) -> SimilarSubjects:
        """Unchanged facts of the edits' properties.

        Args:
            window: Both snapshots.
            edits: Columns case_id, subject and property.
            max_df: A fact that more items have does not make subjects similar.
            k: Most facts about similar subjects for each edit.
            pool: Most static facts of each property.
        """
        ...

    def nearest_entities(
        self, window: Window, subjects: pa.Table, documents: pa.Table, *, n: int
    ) -> Iterator[pa.Table]:
        """The documents most similar to each subject, without the subject itself.

        Args:
            window: Both snapshots.
            subjects: Column id; items of either snapshot.
            documents: Column id; items of the older snapshot. Only their features count.
            n: Most documents for each subject.

        Yields:
            Some subjects at a time; columns NEAREST.
        """
        ...
