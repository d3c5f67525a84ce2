"""SQL for the changes between any two snapshots, composed of changes between consecutive snapshots.

A change between consecutive snapshots has all objects of both sides. Over several snapshots, the older side is that of
the first change of a subject and property and the newer side that of the last one. Values that returned to their former
state are not a change, and merged objects are compared under their id in the newer snapshot, as in
cypher/read/changed_edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kgedit.store.engine import literal
from kgedit.store.snapshots import Snapshot

_ACT = """
    CASE WHEN len(old_objects) = 0 THEN 'first' WHEN len(new_objects) = 0 THEN 'none'
         WHEN list_has_all(old_objects, new_objects) THEN 'removed'
         WHEN list_has_all(new_objects, old_objects) THEN 'added' ELSE 'replaced' END
"""

_SUBJECT = """
    CASE WHEN in_old AND in_new THEN 'in both' WHEN in_new THEN 'new' WHEN in_old THEN 'gone' ELSE 'in neither' END
"""
"""SQL: whether each snapshot contains the subject."""

_ADDED_TIMES = (
    "list_filter(new_times, lambda time, i: time IS NOT NULL AND NOT list_contains(old_objects, new_objects[i]))"
)


def make_window(changes: Sequence[Path], presences: Sequence[Path], newer: Snapshot) -> tuple[str, ...]:
    """Statements that create table ``differences``: the changes of a window.

    Columns subject, property and their labels; old_objects, new_objects (sorted) with labels and times in the same
    order; in_old, in_new (whether each snapshot contains the subject), popularity; and columns for filters and search:
    act (kgedit.explorer.differences.ACTS), presence, content, year, words.

    Args:
        changes: Files ``change`` of all consecutive pairs in the window, oldest first.
        presences: Files ``presence`` of the same pairs.
        newer: The newer snapshot.
    """
    entities = literal(newer.entities)
    redirects = f"SELECT id, redirect_target AS target FROM {entities} WHERE redirect_target IS NOT NULL"  # noqa: S608 - paths through literal()
    rows = _described(_under_newer_ids(_composed(changes, presences), redirects))
    return (f"CREATE TABLE differences AS SELECT * FROM ({rows}) ORDER BY subject, property",)  # noqa: S608 - our own names


def _composed(changes: Sequence[Path], presences: Sequence[Path]) -> str:
    """SQL: the older side of the first change of each subject and property, and the newer side of the last one."""
    if len(changes) == 1:
        return f"SELECT * FROM {literal(changes[0])}"  # noqa: S608 - paths through literal()
    steps = " UNION ALL ".join(f"SELECT *, {k} AS step FROM {literal(file)}" for k, file in enumerate(changes))  # noqa: S608 - paths through literal()
    seen = " UNION ALL ".join(f"SELECT *, {k} AS step FROM {literal(file)}" for k, file in enumerate(presences))  # noqa: S608 - paths through literal()
    olds, news = ("objects", "labels", "times"), ("objects", "labels", "times")
    before = ", ".join(f"old_{name} := old_{name}" for name in olds)
    after = ", ".join(f"new_{name} := new_{name}" for name in news)
    # Nearly all change once only; lists in an aggregate are dear.
    return f"""
        WITH step AS MATERIALIZED ({steps}), several AS MATERIALIZED (
            SELECT subject, property FROM step GROUP BY subject, property HAVING count(*) > 1
        ), folded AS (
            SELECT subject, property, arg_min(struct_pack({before}, in_old := in_old), step) AS before,
                   arg_max(struct_pack({after}, subject_label := subject_label, property_label := property_label,
                                       in_new := in_new, popularity := popularity), step) AS after
            FROM step SEMI JOIN several USING (subject, property) GROUP BY subject, property
        ), once AS (
            SELECT * EXCLUDE (step) FROM step ANTI JOIN several USING (subject, property)
            UNION ALL BY NAME SELECT subject, property, unnest(before), unnest(after) FROM folded
        )
        SELECT once.* REPLACE (coalesce(p.in_old, once.in_old) AS in_old, coalesce(p.in_new, once.in_new) AS in_new)
        FROM once LEFT JOIN (
            SELECT id, arg_min(in_old, step) AS in_old, arg_max(in_new, step) AS in_new FROM ({seen}) GROUP BY id
        ) p ON p.id = subject
    """  # noqa: S608 - paths through literal()


def _under_newer_ids(changes: str, redirects: str) -> str:
    """SQL: the changes with merged objects under the ids of their redirects' targets."""

    def followed(side: str) -> str:
        return f"""
            SELECT subject, property, list(object ORDER BY object) AS {side}_objects,
                   list(label ORDER BY object) AS {side}_labels, list(time ORDER BY object) AS {side}_times
            FROM (SELECT subject, property, coalesce(target, object) AS object, any_value(label) AS label,
                         max(time) AS time
                  FROM (SELECT subject, property, unnest({side}_objects) AS object, unnest({side}_labels) AS label,
                               unnest({side}_times) AS time
                        FROM change SEMI JOIN merged USING (subject, property))
                  LEFT JOIN redirect ON id = object GROUP BY ALL)
            GROUP BY subject, property
        """  # noqa: S608 - our own names

    return f"""
        WITH change AS MATERIALIZED ({changes}), redirect AS MATERIALIZED ({redirects}), merged AS MATERIALIZED (
            SELECT DISTINCT subject, property
            FROM (SELECT subject, property, unnest(list_concat(old_objects, new_objects)) AS id FROM change)
            SEMI JOIN redirect USING (id)
        )
        SELECT * FROM change ANTI JOIN merged USING (subject, property)
        UNION ALL BY NAME
        SELECT c.* REPLACE (
            coalesce(o.old_objects, []) AS old_objects, coalesce(o.old_labels, []) AS old_labels,
            coalesce(o.old_times, []) AS old_times, coalesce(n.new_objects, []) AS new_objects,
            coalesce(n.new_labels, []) AS new_labels, coalesce(n.new_times, []) AS new_times)
        FROM change c SEMI JOIN merged USING (subject, property)
        LEFT JOIN ({followed("old")}) o USING (subject, property)
        LEFT JOIN ({followed("new")}) n USING (subject, property)
    """  # noqa: S608 - our own names


def _described(changes: str) -> str:
    """SQL: the changes with the columns for filters and search."""
    return f"""
        SELECT *, {_ACT} AS act, {_SUBJECT} AS presence,
               CASE WHEN len(list_filter(list_concat(old_objects, new_objects), lambda x: x[1] <> 'Q')) = 0
                   THEN 'items' ELSE 'text, number or date' END AS content,
               regexp_extract(list_max({_ADDED_TIMES}), '^-?\\d+') AS year,
               strip_accents(lower(concat_ws(chr(31), subject, subject_label, property, property_label,
                   array_to_string(old_labels, chr(31)), array_to_string(new_labels, chr(31)),
                   array_to_string(old_objects, chr(31)), array_to_string(new_objects, chr(31))))) AS words
        FROM ({changes}) WHERE old_objects <> new_objects
    """  # noqa: S608 - our own names
