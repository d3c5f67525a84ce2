"""Facts that became true in a window and are not cases: probes that an edit must not change although they are new.

An edit of another subject does not change their answer, whether the model knows it or not. Facts that are cases are
excluded: in a run that applies many edits their answers are meant to change.
"""

from __future__ import annotations

import pyarrow as pa

from kgedit.store.window import Window


def find_changed_facts(window: Window, changes: pa.Table, cases: pa.Table) -> pa.Table:
    """Find changes to one new item, of items in both snapshots, that are not a case.

    Args:
        window: Both snapshots.
        changes: From find_changes, including those dropped in the funnel.
        cases: Columns subject and property.

    Returns:
        Columns subject, property and object, of the newer snapshot, ordered by property and subject.
    """
    return window.select(
        """
        SELECT subject, property, new_objects[1] AS object FROM changes ANTI JOIN cases USING (subject, property)
        WHERE item_valued AND subject_in_old AND subject_in_new AND subject[1] = 'Q' AND len(new_objects) = 1
              AND new_objects[1][1] = 'Q' AND new_objects[1] <> subject
              AND NOT list_contains(old_objects, new_objects[1]) AND NOT list_contains(inherited, new_objects[1])
        ORDER BY property, subject
        """,
        changes=changes.select(
            [
                *("subject", "property", "old_objects", "new_objects", "item_valued", "subject_in_old"),
                *("subject_in_new", "inherited"),
            ]
        ),
        cases=cases.select(["subject", "property"]),
    )
