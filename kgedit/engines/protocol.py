"""The questions that an export asks, and the columns of the answers."""

from __future__ import annotations

from typing import ClassVar, Protocol

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


class Engine(Protocol):
    """Answers the questions of an export.

    Every engine gives the same rows in the same order for the same two snapshots, whatever other snapshots there are.

    Attributes:
        name: What `--engine` calls it; recorded in the timestep.
    """

    name: ClassVar[str]

    def check(self, window: Window) -> None:
        """Check that the engine holds both snapshots.

        Raises:
            BenchmarkError: if it lacks one.
        """
        ...

    def changed_edges(self, window: Window) -> pa.Table:
        """Subjects and properties whose current objects differ; columns CHANGED_EDGES."""
        ...

    def two_hops(self, window: Window) -> pa.Table:
        """Pairs of new facts that chain; columns TWO_HOPS."""
        ...
