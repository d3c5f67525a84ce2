"""From changed edges to cases: an ordered list of filters, with counts of every drop by reason.

The order and the thresholds are WikiBigEdit's (section 3, step 2), by ids instead of labels; beyond the paper,
redirected subjects, Wikimedia's own pages and likely duplicates are dropped as well, and on request changes of
relations that are not functional: the paper judges each subject's own values, so a relation that usually has several
values, such as an award, passes for subjects with only one known value.

Changes that became no case are written to dropped.parquet with their reason; no question is made from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kgedit.store.engine import select
from kgedit.store.facts import with_statement_ids
from kgedit.store.window import Window
from kgedit.timesteps.engines.functionality import (
    BOUNDS,
    bounds_record,
    declared_relations,
    measured_relations,
    stated_relations,
)
from kgedit.timesteps.engines.protocol import CHANGED_EDGES, Engine
from kgedit.timesteps.funnel import Filter, Filtered, reason_column, split_by_reason
from kgedit.timesteps.labels import is_id, likened, not_roman, too_long
from kgedit.timesteps.timestep import Timestep
from kgedit.wording.languages import ENGLISH, Language

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


def find_changes(engine: Engine, window: Window) -> pa.Table:
    """Changed edges of a window; columns CHANGES."""
    return with_inherited(window, engine.changed_edges(window))


def with_inherited(window: Window, changes: pa.Table) -> pa.Table:
    """Add the column ``inherited``: values in the older snapshot of items that were merged into the subject."""
    return window.select(
        f"""
        WITH merged AS (
            SELECT target AS subject, property, list(DISTINCT object ORDER BY object) AS inherited
            FROM old_facts f JOIN new_redirects r ON r.id = f.subject GROUP BY ALL
        )
        SELECT {", ".join(CHANGES[:-1])}, coalesce(inherited, []) AS inherited
        FROM changes LEFT JOIN merged USING (subject, property) ORDER BY subject, property
        """,
        changes=changes.select(list(CHANGES[:-1])),
    )


def filter_changes(changes: pa.Table, labels: pa.Table, language: Language = ENGLISH) -> Filtered:
    """Judge changes by FILTERS.

    Args:
        changes: A part of those from find_changes.
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


def read_statements(window: Window, changes: pa.Table) -> pa.Table:
    """Find the statements of the newer snapshot's values of some changes.

    Returns:
        Columns subject, property and statement_ids, in the order of objects and then of ids; start_time and
        point_in_time of the first statement that has one.
    """
    chosen = "(FROM new_facts SEMI JOIN changes USING (subject, property))"
    return window.select(
        f"""
        SELECT subject, property, list(statement_id ORDER BY object, statement_id) AS statement_ids,
               arg_min(start_time, (object, statement_id)) AS start_time,
               arg_min(point_time, (object, statement_id)) AS point_in_time
        FROM (SELECT subject, property, coalesce(target, object) AS object, statement_id, start_time, point_time
              FROM ({with_statement_ids(chosen, "new_claims")}) LEFT JOIN new_redirects ON id = object)
        GROUP BY ALL ORDER BY subject, property
        """,
        changes=changes,
    )


def keep_kinds(kept: pa.Table, kinds: pa.Table, wanted: Collection[str]) -> Filtered:
    """Add to changes their kind, and keep those of the wanted kinds.

    Args:
        kept: From filter_changes.
        kinds: From kgedit.timesteps.kinds.describe_kinds.
        wanted: Kinds to keep; empty means all.

    Returns:
        Both parts have the columns of `kept` and kind, kind_confidence and kind_signals.
    """
    named = ", ".join(f"'{kind}'" for kind in sorted(wanted)) or "kind"
    filters = (("another kind of change than asked for", f"kind NOT IN ({named})"),)
    judged = select(
        f"""
        SELECT kept.*, kind, confidence AS kind_confidence, signals AS kind_signals, {reason_column(filters)}
        FROM kept JOIN kinds USING (subject, property) ORDER BY subject, property
        """,
        kept=kept,
        kinds=kinds,
    )
    return split_by_reason(judged, filters)


def make_cases(kept: pa.Table, labels: pa.Table, statements: pa.Table) -> pa.Table:
    """Create one case per change, with labels, aliases, scenario and its id, ordered by case_id.

    The scenario is one of WikiFactDiff (section 3), by the values in the snapshots: AddRelation without an older
    value, ReplaceObject with one, Other with several.

    Args:
        kept: From keep_kinds; each has one object.
        labels: Labels of their entities, with the schema kgedit.timesteps.labels.LABELS.
        statements: From read_statements.
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
        FROM kept k JOIN labels s ON s.id = k.subject JOIN labels o ON o.id = k.added[1]
        LEFT JOIN labels p ON p.id = k.property
        LEFT JOIN statements t ON t.subject = k.subject AND t.property = k.property
        ORDER BY case_id
        """,
        kept=kept,
        labels=labels,
        statements=statements,
    )


_FILTERS: dict[str, tuple[Filter, ...]] = {
    "data": (
        ("too few subjects to measure the relation", "measured IS NULL"),
        ("relation of several values by the data", "measured = 'several'"),
    ),
    "constraints": (("relation without a single-value constraint", "declared IS NULL"),),
}


def keep_functional(engine: Engine, window: Window, kept: pa.Table, by: str) -> Filtered:
    """Keep changes of relations that have one value, temporal or not.

    Args:
        engine: Counts values, or finds constraints.
        window: Both snapshots; the newer one decides whether a relation is functional.
        kept: At least the columns subject and property.
        by: "data" or "constraints"; "values" keeps all.

    Returns:
        Both parts have the columns of `kept`, ordered by subject and property.
    """
    if by == "values":
        return Filtered(kept, kept.slice(0, 0).append_column("reason", pa.nulls(0, pa.string())), {})
    asked = kept.select(["property"])
    if by == "data":
        answer = engine.functional_by_data(window, asked, min_subjects=BOUNDS.subjects)
        verdicts = measured_relations("answer", stated_relations(window, "property IN (SELECT property FROM asked)"))
    else:
        answer, verdicts = engine.functional_by_constraint(window), declared_relations("answer")
    judged = window.select(
        f"""
        SELECT kept.*, {reason_column(_FILTERS[by])}
        FROM kept LEFT JOIN ({verdicts}) USING (property) ORDER BY subject, property
        """,
        kept=kept,
        asked=asked,
        answer=answer,
    )
    return split_by_reason(judged, _FILTERS[by])


def verdict_record(by: str) -> dict[str, Any]:
    """Entry of the manifest for the verdict that a profile used."""
    return {"verdict": by} | (bounds_record(BOUNDS) if by == "data" else {})


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


def with_reasons(changes: pa.Table, filters: Sequence[Filtered]) -> pa.Table:
    """Columns subject, property, old_objects and new_objects of changes, and ``reason``: null if none dropped them.

    Args:
        changes: The input of the first filter, ordered by subject and property.
        filters: Results of the filters.
    """
    found = select(
        "SELECT reason FROM changes LEFT JOIN reasons USING (subject, property) ORDER BY subject, property",
        changes=changes.select(["subject", "property"]),
        reasons=pa.concat_tables([part.dropped.select(["subject", "property", "reason"]) for part in filters]),
    )
    narrow = changes.select(["subject", "property", "old_objects", "new_objects"])
    return narrow.append_column("reason", found["reason"].dictionary_encode())


def dropped_changes(parts: Iterable[tuple[pa.Table, pa.Table]]) -> Iterator[pa.Table]:
    """List every dropped change with labels and its reason.

    Args:
        parts: From kgedit.timesteps.labels.labelled_parts, for the result of `with_reasons`.

    Yields:
        Tables with the schema DROPPED, one for each part, ordered by subject and property.
    """
    for changes, labels in parts:
        dropped = changes.filter(pc.is_valid(changes["reason"]))
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
