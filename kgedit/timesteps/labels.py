"""Labels of the entities in a change, and filters of labels for questions (WikiBigEdit, section 3, step 2)."""

from __future__ import annotations

import pyarrow as pa

from kgedit.store.closures import below, subclass_links
from kgedit.store.window import Window
from kgedit.wikidata.ids import INSTANCE_OF, WIKIMEDIA_PAGE_CLASSES

MAX_LABEL_WORDS = 5

LABELS = pa.schema(
    [
        ("id", pa.string()),
        ("label", pa.string()),  # in the newer snapshot
        ("old_label", pa.string()),  # in the older snapshot
        ("aliases", pa.list_(pa.string())),
        ("description", pa.string()),  # in the newer snapshot, like the aliases
        ("is_page", pa.bool_()),  # an instance of a Wikimedia page class, or of a subclass
    ]
)
"""One row per entity that occurs in a change and is in a snapshot."""


def not_roman(label: str) -> str:
    """SQL: whether a label has no letter of the Latin script."""
    return rf"NOT regexp_matches({label}, '\p{{Latin}}')"


def too_long(label: str) -> str:
    """SQL: whether a label has more than five words."""
    return rf"len(regexp_split_to_array(trim({label}), '\s+')) > {MAX_LABEL_WORDS}"


def usable(label: str) -> str:
    """SQL: whether a label can be used in questions and answers; false or null without a label."""
    return f"NOT {not_roman(label)} AND length({label}) > 1 AND NOT {too_long(label)}"


def likened(label: str) -> str:
    """SQL of a label for finding duplicates: without case and spaces."""
    return rf"lower(regexp_replace(trim({label}), '\s+', ' ', 'g'))"


def pages_among(ids: str) -> str:
    """SQL of those of a table's ids that are Wikimedia pages in the newer snapshot (column ``id``)."""
    roots = [("page", name) for name in WIKIMEDIA_PAGE_CLASSES]
    return f"""
        SELECT DISTINCT subject AS id FROM new_facts
        WHERE property = '{INSTANCE_OF}' AND subject IN (SELECT id FROM {ids})
              AND object IN (SELECT id FROM ({below(roots, f"({subclass_links('new_facts')})")}))
    """  # noqa: S608 - our own names


def read_labels(window: Window, changes: pa.Table) -> pa.Table:
    """Read the labels of all subjects, properties and objects of changes.

    Args:
        window: Both snapshots.
        changes: Columns subject, property, old_objects and new_objects.

    Returns:
        A table with the schema LABELS, ordered by id.
    """
    return window.select(
        f"""
        WITH mentioned AS (
            SELECT subject AS id FROM changes UNION SELECT property FROM changes
            UNION SELECT unnest(old_objects) FROM changes UNION SELECT unnest(new_objects) FROM changes
        ), page AS (
            {pages_among("mentioned")}
        ), old AS (
            SELECT id, label FROM old_entities WHERE id IN (FROM mentioned)
        ), new AS (
            SELECT id, label, aliases, description FROM new_entities WHERE id IN (FROM mentioned)
        )
        SELECT id, new.label, old.label AS old_label, coalesce(new.aliases, []) AS aliases,
               new.description, id IN (FROM page) AS is_page
        FROM old FULL JOIN new USING (id) ORDER BY id
        """,  # noqa: S608 - our own names
        changes=changes,
    ).cast(LABELS)
