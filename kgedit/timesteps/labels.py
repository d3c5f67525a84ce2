"""Labels of what a change mentions, and which labels can be asked for (WikiBigEdit, section 3, step 2)."""

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
        ("old_label", pa.string()),  # in the older one
        ("aliases", pa.list_(pa.string())),
        ("description", pa.string()),  # in the newer snapshot, like the aliases
        ("is_page", pa.bool_()),  # an instance of a Wikimedia page class, or of one below it
    ]
)
"""One row per entity that a change mentions and a snapshot has."""


def not_roman(label: str) -> str:
    """SQL: whether a label has no letter of the Roman script."""
    return rf"NOT regexp_matches({label}, '\p{{Latin}}')"


def too_long(label: str) -> str:
    """SQL: whether a label has more than five words."""
    return rf"len(regexp_split_to_array(trim({label}), '\s+')) > {MAX_LABEL_WORDS}"


def usable(label: str) -> str:
    """SQL: whether a label can be asked for, or be an answer; false or null where there is none."""
    return f"NOT {not_roman(label)} AND length({label}) > 1 AND NOT {too_long(label)}"


def likened(label: str) -> str:
    """SQL: a label without what tells duplicates apart, case and spaces."""
    return rf"lower(regexp_replace(trim({label}), '\s+', ' ', 'g'))"


def pages_among(ids: str) -> str:
    """SQL: those of a table's ids that are pages of a Wikimedia project in the newer snapshot (column ``id``)."""
    roots = [("page", name) for name in WIKIMEDIA_PAGE_CLASSES]
    return f"""
        SELECT DISTINCT subject AS id FROM new_facts
        WHERE property = '{INSTANCE_OF}' AND subject IN (SELECT id FROM {ids})
              AND object IN (SELECT id FROM ({below(roots, f"({subclass_links('new_facts')})")}))
    """  # noqa: S608 - our own names


def read_labels(window: Window, changes: pa.Table) -> pa.Table:
    """Labels of all subjects, properties and objects of some changes.

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
