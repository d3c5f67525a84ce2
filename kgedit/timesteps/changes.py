"""From changed edges to cases: an ordered list of filters, with counts of every drop by reason.

The order and the thresholds are WikiBigEdit's (section 3, step 2), by ids instead of labels; beyond the paper,
redirected subjects, Wikimedia's own pages and likely duplicates are dropped as well, and on request changes of
relations that are not functional: the paper judges each subject's own values, so a relation that usually has several
values, such as an award, passes for subjects with only one known value.

Changes that became no case are written to dropped.parquet with their reason; no question is made from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.store.engine import select
from kgedit.store.facts import with_statement_ids
from kgedit.store.parts import keep_in_parts
from kgedit.store.window import Window
from kgedit.timesteps.engines import CHANGED_EDGES, Engine
from kgedit.timesteps.engines.functionality import (
    BOUNDS,
    bounds_record,
    declared_relations,
    measured_relations,
    stated_relations,
)
from kgedit.timesteps.filters import Filter, Filtered, reason_column, split_by_reason
from kgedit.timesteps.labels import is_id, labelled_parts, likened, not_roman, too_long
from kgedit.timesteps.selected import keep_selected
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.catalogues import ENGLISH, Language

FILTERS: tuple[Filter, ...] = (
    ("subject is no item", "subject[1] <> 'Q'"),
    ("subject gone or redirected in the newer snapshot", "NOT subject_in_new"),
    ("subject not in the older snapshot", "NOT subject_in_old"),
    ("not entity to entity", "NOT item_valued"),
    ("an item merged into the subject had the value", "len(added) > 0 AND list_has_all(inherited, added)"),
    ("value removed, none added", "len(added) = 0"),
    ("circular: subject is the object", "list_contains(new_objects, subject)"),
    ("no label in the languages asked for", "subject_label IS NULL OR object_unlabelled"),
    ("a label is the id of an entity", f"{is_id('subject_label')} OR object_is_id"),
    ("no letter of the Roman script in a label", "subject_not_roman OR object_not_roman"),
    ("label of one character", "length(subject_label) = 1 OR object_one_character"),
    ("label of more than five words", f"{too_long('subject_label')} OR object_too_long"),
    ("several current objects", "len(new_objects) > 1"),
    ("Wikimedia page: list, category, template, disambiguation, portal, module", "subject_is_page OR object_is_page"),
    ("old and new object bear one label: likely duplicate", "object_label_unchanged"),
    ("no label of the old object", "old_unlabelled"),
)
"""A change is dropped for the first filter that matches."""

CHANGES = (*CHANGED_EDGES.names, "inherited")
"""Columns of changes from an engine, and ``inherited``; labels are read from the snapshots."""


def keep_changes(window: Window, edges: Iterable[pa.Table]) -> None:
    """Create the table change in the window's connection: columns CHANGES and part, ordered by subject and property.

    Column ``inherited``: values in the older snapshot of items that were merged into the subject.

    Args:
        window: Both snapshots.
        edges: Changed edges, in at least one table (kgedit.timesteps.engines.Engine.changed_edges).
    """
    for table in edges:
        window.add("changed_edge", table.select(list(CHANGES[:-1])))
    window.run(
        f"""
        CREATE TABLE sorted_change AS
        WITH merged AS (
            SELECT target AS subject, property, list(DISTINCT object ORDER BY object) AS inherited
            FROM old_facts f JOIN new_redirects r ON r.id = f.subject GROUP BY ALL
        )
        SELECT {", ".join(CHANGES[:-1])}, coalesce(inherited, []) AS inherited
        FROM changed_edge LEFT JOIN merged USING (subject, property) ORDER BY subject, property;
        CREATE TABLE change AS SELECT *, (rowid // {_CHANGES_AT_ONCE})::INTEGER AS part FROM sorted_change
        """
    )
    window.drop("changed_edge", "sorted_change")


_CHANGES_AT_ONCE = 20_000
"""Changes of a part, which are labelled and judged at once."""


def judge_changes(window: Window, labels: Path, selection: pa.Table | None, language: Language) -> dict[str, int]:
    """Select and filter changes part by part.

    Creates the tables remaining: columns CHANGES and part, ``added`` and ``old_answers`` of filter_changes; and
    dropped_change: subject, property and reason.

    Args:
        window: Window with the table change.
        labels: File that kgedit.timesteps.labels.write_labels wrote.
        selection: Changes that count (kgedit.timesteps.selected); None means all.
        language: Language of the labels.

    Returns:
        Number of dropped changes by reason, in the order of the filters.
    """
    counts: Counter[str] = Counter()
    for part, (rows, of_rows) in enumerate(labelled_parts(window.connection, "change", labels)):
        chosen = keep_selected(rows, selection)
        judged = filter_changes(chosen.kept, of_rows, language)
        counts.update(chosen.funnel)
        counts.update(judged.funnel)
        for dropped in (chosen.dropped, judged.dropped):
            window.add("dropped_change", dropped.select(["subject", "property", "reason"]))
        number = pa.repeat(pa.scalar(part, pa.int32()), judged.kept.num_rows)
        window.add("remaining", judged.kept.append_column("part", number))
    return dict(counts)


def drop_remaining(window: Window, judged: str, filters: Sequence[Filter], **tables: pa.Table) -> dict[str, int]:
    """Move changes that have a reason from the table remaining to dropped_change.

    Args:
        window: Window with these tables.
        judged: SQL of the remaining changes with their column ``reason``; further columns are added to the table.
        filters: All reasons, in order.
        tables: Tables for the query.

    Returns:
        Number of dropped changes by reason, in the order of the filters.
    """
    window.run(f"CREATE TABLE judged AS {judged}", **tables)
    counted = window.select("SELECT reason, count(*) AS n FROM judged WHERE reason IS NOT NULL GROUP BY reason")
    counts = {row["reason"]: row["n"] for row in counted.to_pylist()}
    window.run(
        """
        INSERT INTO dropped_change SELECT subject, property, reason FROM judged WHERE reason IS NOT NULL;
        CREATE OR REPLACE TABLE remaining AS SELECT * EXCLUDE (reason) FROM judged WHERE reason IS NULL
        """
    )
    window.drop("judged")
    return {reason: counts.get(reason, 0) for reason, _ in filters}


def filter_changes(changes: pa.Table, labels: pa.Table, language: Language = ENGLISH) -> Filtered:
    """Judge changes by FILTERS.

    Args:
        changes: A part of the changes.
        labels: Labels of their entities (kgedit.timesteps.labels.labelled_parts).
        language: Language of the labels; Chinese characters are letters in Chinese only.

    Returns:
        Both parts have the columns of `changes`, ``added`` (objects that only the newer snapshot has) and
        ``old_answers`` (labels of the old objects, in their order).
    """
    judged = select(
        f"""
        WITH change AS (
            SELECT *, list_filter(new_objects, lambda x: NOT list_contains(old_objects, x)) AS added FROM changes
        ), added_object AS (
            SELECT subject, property, bool_or(label IS NULL) AS object_unlabelled,
                   bool_or({is_id("label")}) AS object_is_id,
                   bool_or({not_roman("label", language)}) AS object_not_roman,
                   bool_or(length(label) = 1) AS object_one_character,
                   bool_or({too_long("label")}) AS object_too_long, bool_or(is_page) AS object_is_page,
                   list({likened("label")}) AS added_labels
            FROM (SELECT subject, property, unnest(added) AS object FROM change)
            LEFT JOIN labels ON id = object GROUP BY ALL
        ), old_object AS (
            SELECT subject, property, bool_or(coalesce(old_label, label) IS NULL) AS old_unlabelled,
                   list(coalesce(old_label, label) ORDER BY place) AS old_answers,
                   list({likened("coalesce(old_label, label)")}) AS old_labels
            FROM (SELECT subject, property, unnest(old_objects) AS object,
                         generate_subscripts(old_objects, 1) AS place FROM change)
            LEFT JOIN labels ON id = object GROUP BY ALL
        ), labelled AS (
            SELECT change.*, s.label AS subject_label,
                   {not_roman("s.label", language)} AS subject_not_roman, coalesce(s.is_page, false) AS subject_is_page,
                   added_object.* EXCLUDE (subject, property), old_unlabelled, coalesce(old_answers, []) AS old_answers,
                   list_has_any(coalesce(old_labels, []), added_labels) AS object_label_unchanged
            FROM change LEFT JOIN labels s ON s.id = subject
            LEFT JOIN added_object USING (subject, property) LEFT JOIN old_object USING (subject, property)
        )
        SELECT {", ".join(CHANGES)}, added, old_answers, {reason_column(FILTERS)}
        FROM labelled ORDER BY subject, property
        """,
        changes=changes,
        labels=labels,
    )
    return split_by_reason(judged, FILTERS)


def keep_kinds(window: Window, wanted: Collection[str]) -> dict[str, int]:
    """Add to the remaining changes kind, kind_confidence and kind_signals, and keep those of the wanted kinds.

    Args:
        window: Window with the tables remaining and change_kind (kgedit.timesteps.kinds.kinds_in_parts), which is
            dropped.
        wanted: Kinds to keep; empty means all.

    Returns:
        Number of dropped changes by reason.
    """
    named = ", ".join(f"'{kind}'" for kind in sorted(wanted)) or "kind"
    filters = (("another kind of change than asked for", f"kind NOT IN ({named})"),)
    judged = f"""
        SELECT remaining.*, kind, confidence AS kind_confidence, signals AS kind_signals, {reason_column(filters)}
        FROM remaining JOIN change_kind USING (subject, property)
    """
    counts = drop_remaining(window, judged, filters)
    window.drop("change_kind")
    return counts


def keep_cases(window: Window, labels: Path) -> None:
    """Create the table new_case of the remaining changes, which are dropped: rows of make_cases.

    Args:
        window: Window with the tables change and remaining.
        labels: File that kgedit.timesteps.labels.write_labels wrote.
    """
    chosen = "(FROM new_facts SEMI JOIN remaining USING (subject, property))"
    window.run(_STATEMENTS)
    window.run_by_bucket(
        f"""
        INSERT INTO statement_of
        SELECT subject, property, list(statement_id ORDER BY object, statement_id),
               arg_min(start_time, (object, statement_id)), arg_min(point_time, (object, statement_id))
        FROM (SELECT subject, property, coalesce(target, object) AS object, statement_id, start_time, point_time
              FROM ({with_statement_ids(chosen, "new_claims")}) LEFT JOIN new_redirects ON id = object)
        GROUP BY subject, property
        """,
        divided={"remaining": "subject"},
    )
    keep_in_parts(
        window.connection, "stated_change", "SELECT * FROM remaining LEFT JOIN statement_of USING (subject, property)"
    )
    window.drop("remaining", "statement_of")
    for rows, of_rows in labelled_parts(window.connection, "stated_change", labels):
        window.add("new_case", make_cases(rows, of_rows))
    window.drop("stated_change")


_STATEMENTS = """
    CREATE TABLE statement_of (
        subject VARCHAR, property VARCHAR, statement_ids VARCHAR[], start_time VARCHAR, point_in_time VARCHAR)
"""
"""Statements of the newer snapshot's values: ids in the order of objects and then of ids, and the times of the first
statement that has one."""


def make_cases(changes: pa.Table, labels: pa.Table) -> pa.Table:
    """Create one case per change, with labels, aliases, scenario and its id.

    The scenario is one of WikiFactDiff (section 3), by the values in the snapshots: AddRelation without an older
    value, ReplaceObject with one, Other with several.

    Args:
        changes: Columns of filter_changes, kind, kind_confidence and kind_signals, statement_ids, start_time and
            point_in_time; each has one object.
        labels: Labels of their entities, with the schema kgedit.timesteps.labels.LABELS.
    """
    return select(
        """
        SELECT k.subject || ':' || k.property || ':' || k.added[1] AS case_id,
               CASE WHEN len(k.old_objects) = 0 THEN 'new' ELSE 'update' END AS tag,
               CASE len(k.old_objects) WHEN 0 THEN 'AddRelation' WHEN 1 THEN 'ReplaceObject' ELSE 'Other' END
                   AS scenario,
               k.subject, s.label AS subject_label, k.property, coalesce(p.label, k.property) AS property_label,
               k.added[1] AS object, o.label AS object_label, o.label AS answer, o.aliases AS object_aliases,
               statement_ids, start_time, point_in_time, kind, kind_confidence, kind_signals, old_objects, old_answers,
               coalesce(s.aliases, []) AS subject_aliases, s.description AS subject_description,
               coalesce(s.old_label <> s.label, false) OR coalesce(o.old_label <> o.label, false) AS label_changed
        FROM changes k JOIN labels s ON s.id = k.subject JOIN labels o ON o.id = k.added[1]
        LEFT JOIN labels p ON p.id = k.property
        """,
        changes=changes,
        labels=labels,
    )


_FILTERS: dict[str, tuple[Filter, ...]] = {
    "data": (
        ("too few subjects to measure the relation", "measured IS NULL"),
        ("relation of several values by the data", "measured = 'several'"),
    ),
    "constraints": (("relation without a single-value constraint", "declared IS NULL"),),
}


def keep_functional(engine: Engine, window: Window, by: str) -> dict[str, int]:
    """Keep remaining changes of relations that have one value, temporal or not.

    Args:
        engine: Counts values, or finds constraints.
        window: Window with the table remaining; the newer snapshot decides whether a relation is functional.
        by: "data" or "constraints"; "values" keeps all.

    Returns:
        Number of dropped changes by reason.
    """
    if by == "values":
        return {}
    asked = window.select("SELECT DISTINCT property FROM remaining")
    if by == "data":
        answer = engine.functional_by_data(window, asked, min_subjects=BOUNDS.subjects)
        verdicts = measured_relations("answer", stated_relations(window, "property IN (SELECT property FROM asked)"))
    else:
        answer, verdicts = engine.functional_by_constraint(window), declared_relations("answer")
    judged = f"SELECT remaining.*, {reason_column(_FILTERS[by])} FROM remaining LEFT JOIN ({verdicts}) USING (property)"
    return drop_remaining(window, judged, _FILTERS[by], asked=asked, answer=answer)


def verdict_record(by: str) -> dict[str, Any]:
    """Entry of the manifest for the verdict that a profile used."""
    return {"verdict": by} | (bounds_record(BOUNDS) if by == "data" else {})


def find_changed_facts(window: Window) -> pa.Table:
    """Find changes to one new item, of items in both snapshots, that are not a case.

    Args:
        window: Window with the tables change and worded_case (kgedit.timesteps.written.write_cases).

    Returns:
        Columns subject, property and object, of the newer snapshot, ordered by property and subject.
    """
    return window.select(
        """
        SELECT subject, property, new_objects[1] AS object FROM change ANTI JOIN worded_case USING (subject, property)
        WHERE item_valued AND subject_in_old AND subject_in_new AND subject[1] = 'Q' AND len(new_objects) = 1
              AND new_objects[1][1] = 'Q' AND new_objects[1] <> subject
              AND NOT list_contains(old_objects, new_objects[1]) AND NOT list_contains(inherited, new_objects[1])
        ORDER BY property, subject
        """
    )


_STRINGS = pa.list_(pa.string())

DROPPED = pa.schema(
    [
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("property", pa.string()),
        ("property_label", pa.string()),
        ("old_objects", _STRINGS),
        ("old_labels", _STRINGS),
        ("new_objects", _STRINGS),
        ("new_labels", _STRINGS),
        ("reason", pa.string()),
    ]
)
"""One row per dropped subject and property. Labels are in the order of objects, null without a label (a literal, or an
item without a label in the requested languages). reason: a reason of the funnel in timestep.json."""


def dropped_changes(parts: Iterable[tuple[pa.Table, pa.Table]]) -> Iterator[pa.Table]:
    """List every dropped change with labels and its reason.

    Args:
        parts: Dropped changes with old_objects, new_objects and reason, and the labels of their entities, as from
            kgedit.timesteps.labels.labelled_parts.

    Yields:
        Tables with the schema DROPPED, one for each part, ordered by subject and property.
    """
    for dropped, labels in parts:
        yield select(_DROPPED, dropped=dropped, labels=labels.select(["id", "label", "old_label"])).cast(DROPPED)


_DROPPED = """
    WITH old_label AS (
        SELECT subject, property, list(coalesce(old_label, label) ORDER BY place) AS old_labels
        FROM (SELECT subject, property, unnest(old_objects) AS id, generate_subscripts(old_objects, 1) AS place
              FROM dropped)
        LEFT JOIN labels USING (id) GROUP BY ALL
    ), new_label AS (
        SELECT subject, property, list(label ORDER BY place) AS new_labels
        FROM (SELECT subject, property, unnest(new_objects) AS id, generate_subscripts(new_objects, 1) AS place
              FROM dropped)
        LEFT JOIN labels USING (id) GROUP BY ALL
    )
    SELECT subject, coalesce(s.label, s.old_label) AS subject_label, property, p.label AS property_label,
           old_objects, coalesce(old_labels, []) AS old_labels,
           new_objects, coalesce(new_labels, []) AS new_labels, reason
    FROM dropped LEFT JOIN old_label USING (subject, property) LEFT JOIN new_label USING (subject, property)
    LEFT JOIN labels s ON s.id = subject LEFT JOIN labels p ON p.id = property
    ORDER BY subject, property
"""


def read_dropped(timestep: Timestep) -> pa.Table | None:
    """Read the dropped changes; None if the export is from an earlier version of kgedit, which did not store them."""
    path = timestep.folder / "dropped.parquet"
    return pq.read_table(path, schema=DROPPED) if path.is_file() else None
