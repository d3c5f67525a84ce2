"""Engines, which answer the four questions of an export: Cypher over the graph, or SQL over the store.

Here are the queries, and the columns of their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
"""One row per subject and property whose current objects differ.

Objects are ids of items and properties, or V... for literals, sorted; an object merged since the older snapshot has the
id that the newer one redirects to. ``item_valued``: every object on both sides is an item.
"""

TWO_HOPS = pa.schema(
    [(name, pa.string()) for name in ("subject", "first_property", "bridge", "second_property", "object")]
)
"""One row per pair of new facts of which the second starts at the end of the first, ordered by all columns."""

HOPS = pa.schema([(name, pa.string()) for name in ("subject", "property", "object")])
"""Facts that may be a hop of a chain, ordered by all columns.

Each is in both snapshots, and is its subject's only value of the property in the newer one.
"""

FUNCTIONAL_BY_DATA = pa.schema([("property", pa.string()), ("subjects", pa.int64()), ("functional", pa.float64())])
"""One row per property with enough subjects, ordered by property.

``functional``: share of the subjects with exactly one current object in the newer snapshot, in [0, 1].
"""

FUNCTIONAL_BY_CONSTRAINT = pa.schema(
    [("property", pa.string()), ("constraint", pa.string()), ("separators", pa.list_(pa.string()))]
)
"""One row per property, constraint ("single value" or "single best value") and list of separators, ordered by all.

``separators``: properties whose qualifiers distinguish several values, sorted; may be empty.
"""

SIMILAR = pa.schema(
    [*((name, pa.string()) for name in ("case_id", "subject", "property", "object")), ("score", pa.float64())]
)
"""Candidate facts for a case, all unchanged, best first: ordered by property, case_id, score (descending) and subject.

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
known value do not count; statements of a merged item belong to the item that the newer snapshot redirects to.
"""

NEAREST = pa.schema([("subject", pa.string()), ("neighbour", pa.string()), ("cosine", pa.int64())])
"""The entities most similar to each subject: ordered by subject, cosine (descending) and neighbour, ids by number.

``cosine``: cosine of the TF-IDF vectors (WikiFactDiff, section 4.4), in millionths, at least 1.
"""


class SimilarSubjects(NamedTuple):
    """Unchanged facts around edits.

    Attributes:
        similar: Facts about the most similar subjects of each edit, in tables of some edits each; columns SIMILAR.
        static: First facts by subject of each property of the edits; columns STATIC.
    """

    similar: Iterator[pa.Table]
    static: pa.Table


class Engine(Protocol):
    """Runs the queries of an export.

    Two queries depend on the profile. For changes, wikibigedit compares current facts (changed_edges), wikifactdiff all
    statements (changed_statements). For similarity, wikibigedit weights shared facts (similar_subjects), wikifactdiff
    computes the cosine of all features (nearest_entities).

    Every engine returns the same rows in the same order for the same two snapshots, regardless of other snapshots.

    Attributes:
        name: Its name in `--engine`, recorded in the timestep.
    """

    name: ClassVar[str]

    def check(self, window: Window) -> None:
        """Check that the engine has both snapshots.

        Raises:
            TimestepError: if one is missing.
        """
        ...

    def changed_edges(self, window: Window) -> Iterator[pa.Table]:
        """Yield at least one table of subjects and properties whose current objects differ; columns CHANGED_EDGES."""
        ...

    def changed_statements(self, window: Window) -> pa.Table:
        """Items and properties whose statements differ; columns CHANGED_STATEMENTS.

        Raises:
            TimestepError: if the engine does not have all statements.
        """
        ...

    def two_hops(self, window: Window) -> pa.Table:
        """Pairs of new facts that form a chain; columns TWO_HOPS."""
        ...

    def hops_from(self, window: Window, items: pa.Table, properties: Sequence[str], *, fan: int) -> pa.Table:
        """Facts that lead on from items; columns HOPS.

        Args:
            window: Both snapshots.
            items: Column id.
            properties: Properties that may be a hop.
            fan: Maximum number of facts of an item.
        """
        ...

    def hops_to(self, window: Window, items: pa.Table, properties: Sequence[str], *, fan: int, max_df: int) -> pa.Table:
        """Facts that lead to items; columns HOPS.

        Args:
            window: Both snapshots.
            items: Column id.
            properties: Properties that may be a hop.
            fan: Maximum number of facts of an item, each with a different property.
            max_df: Items to which more facts of the newer snapshot lead are left out.
        """
        ...

    def functional_by_data(self, window: Window, properties: pa.Table, *, min_subjects: int) -> pa.Table:
        """Degree to which properties are functional in the newer snapshot; columns FUNCTIONAL_BY_DATA.

        Args:
            window: Both snapshots.
            properties: Column property: the properties to measure.
            min_subjects: Minimum number of subjects of a property.
        """
        ...

    def functional_by_constraint(self, window: Window) -> pa.Table:
        """Properties with a single-value constraint of Wikidata's editors; columns FUNCTIONAL_BY_CONSTRAINT.

        Constraints are read from the newer snapshot, and from the older one for properties that the newer one lacks.
        """
        ...

    def similar_subjects(self, window: Window, edits: str, *, max_df: int, k: int, pool: int) -> SimilarSubjects:
        """Find unchanged facts of the edits' properties.

        Args:
            window: Both snapshots.
            edits: Query of the window's tables with the columns case_id, subject and property.
            max_df: Maximum number of items with a fact for it to make subjects similar.
            k: Maximum number of facts about similar subjects per edit.
            pool: Maximum number of static facts per property.
        """
        ...

    def nearest_entities(
        self, window: Window, subjects: pa.Table, documents: pa.Table, *, n: int
    ) -> Iterator[pa.Table]:
        """Find the documents most similar to each subject, without the subject itself.

        Args:
            window: Both snapshots.
            subjects: Column id; items of either snapshot.
            documents: Column id; items of the older snapshot. Only their features count.
            n: Maximum number of documents per subject.

        Yields:
            Tables of some subjects each; columns NEAREST.
        """
        ...
