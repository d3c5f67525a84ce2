"""Columns of the tables that pass between the steps, and the kinds of change with their meanings.

A change is a subject and property whose current values differ between two snapshots.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from kgedit.errors import UnknownNameError

KINDS: dict[str, str] = {
    "update": "the world changed, and the new value holds since then",
    "backfill": "the new value was true before the older snapshot already and was entered since",
    "refinement": "the new value says the same more precisely",
    "unrefinement": "the new value says the same less precisely",
    "reformatting": "the same value, written otherwise",
    "link repair": "another entity for the same thing: a namesake, a merged entity, a page in place of its topic",
    "text edit": "other words or another spelling for the same thing",
    "retraction": "the old value was taken back as wrong, or vanished",
    "revert": "the value of an earlier snapshot is back",
}
"""Kind -> meaning."""


def check_kinds(names: Collection[str]) -> None:
    """Check that names are kinds of change.

    Raises:
        UnknownNameError: for the first that is not.
    """
    for name in names:
        if name not in KINDS:
            raise UnknownNameError("kind of change", name, KINDS)


_STRINGS = pa.list_(pa.string())
_BOTH_SIDES = ("object", "text", "description", "classes", "unit", "language", "precision", "calendar")

CHANGES = pa.schema(
    [("subject", pa.string()), ("property", pa.string()), ("old_objects", _STRINGS), ("new_objects", _STRINGS)]
)
"""One row per subject and property: ids of the previous and the current values, V... for a literal."""

VALUES = pa.schema(
    [
        ("subject", pa.string()),
        ("property", pa.string()),
        ("property_label", pa.string()),
        ("value_type", pa.string()),  # item, quantity, time, monolingualtext, globe-coordinate, string; null if mixed
        *((f"{side}_{name}", pa.string()) for side in ("old", "new") for name in _BOTH_SIDES),
    ]
)
"""An old and a new value as text. ``object`` is an item's id, by which snapshots are joined; ``text`` is an entity's
label or a literal in the store's spelling ("1999-05", "41.50"); ``classes`` are the labels of an entity's classes, one
per line."""

KINDS_OF_CHANGES = pa.schema(
    [
        ("subject", pa.string()),
        ("property", pa.string()),
        ("kind", pa.string()),  # one of KINDS
        ("confidence", pa.float64()),  # in [0, 1]
        ("signals", _STRINGS),  # names of the signals that the deciding rule reads
        ("rule", pa.string()),  # name of the deciding rule, or "classifier"
    ]
)
"""The verdict on each change, ordered by subject and property."""
