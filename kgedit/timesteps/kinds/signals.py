"""Signals of changes, from snapshots of the store: properties of both values, their dates and their history.

A change is a subject and property whose current values differ between two snapshots. If it has several values, each
added value is compared with the most similar removed one, and a signal holds for the change if it holds for all its
added values; if it is unknown for one of them, it is unknown for the change. A change that only adds or only removes
values has no pair to compare: signals that need both sides are null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

from kgedit.errors import UnknownNameError
from kgedit.store.engine import listed, open_engine
from kgedit.store.snapshots import Snapshot
from kgedit.timesteps.kinds.snapshot_tables import (
    FIXED_AT_BEGINNING,
    FIXED_AT_END,
    SLOW,
    WindowChanges,
    make_tables,
    make_tables_of_values,
    parts_of_pairs,
)
from kgedit.timesteps.kinds.value_signals import VALUE_SIGNALS, Signal, add_value_signals, compare_values, define_macros
from kgedit.wikidata.times import day_number

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

MEMORY = "192MB"
"""Memory limit of DuckDB for the signals, whatever the number of changes; the rest spills to disk."""

_BEGUN = "coalesce(n.start_first, n.point_first)"
_BEGUN_UNTIL = "coalesce(n.start_until, n.point_until)"


def _decided(inside: str, around: str, linked: str) -> str:
    """SQL: whether one value is in the other; null if each is in the other, or the place of the value is unknown."""
    return f"CASE WHEN {inside} IS NULL THEN CASE WHEN {linked} THEN false END WHEN {around} IS NULL THEN true END"


ENTITY_SIGNALS = (
    Signal("merged", "one of the values redirects to the other", "p.old_target = p.new_target"),
    Signal("namesake", "a label of one value is an alias or the label of the other",
           "CASE WHEN p.old_object[1] = 'Q' AND p.new_object[1] = 'Q' THEN "
           "list_has_any(p.old_names, [name_of(p.new_text)]) OR list_has_any(p.new_names, [name_of(p.old_text)]) END"),
    Signal("classes_differ", "both values are instances of something, and of nothing in common",
           "CASE WHEN p.old_class_ids <> [] AND p.new_class_ids <> [] "
           "THEN NOT list_has_any(p.old_class_ids, p.new_class_ids) END"),
    # If only the class of a place is known, its location is unknown: null, not false.
    Signal("new_within_old", "the new value is an instance of the old one, or lies within it (kgedit.store.closures)",
           _decided("w.inner_id", "v.inner_id", "p.new_linked")),
    Signal("old_within_new", "the old value is an instance of the new one, or lies within it (kgedit.store.closures)",
           _decided("v.inner_id", "w.inner_id", "p.old_linked")),
    Signal("classes_alike", "share of the classes of either value that both are instances of",
           "len(list_intersect(p.old_class_ids, p.new_class_ids)) "
           "/ nullif(len(list_distinct(p.old_class_ids || p.new_class_ids)), 0)", number=True),
    Signal("containers_alike", "share of the containers of either value that contain both",
           "CASE WHEN p.old_containers > 0 AND p.new_containers > 0 THEN coalesce(near.shared, 0) "
           "/ (p.old_containers + p.new_containers - coalesce(near.shared, 0)) END", number=True),
    Signal("steps_apart", "steps between both values through their nearest common container",
           "near.steps", number=True),
    Signal("steps_inward", "steps from the new value out to the old one; negative from the old one to the new one",
           "CASE WHEN w.depth IS NOT NULL AND v.depth IS NOT NULL THEN NULL "
           "WHEN w.depth IS NOT NULL THEN w.depth WHEN v.depth IS NOT NULL THEN -v.depth "
           "WHEN p.old_containers > 0 AND p.new_containers > 0 THEN 0 END", number=True),
    Signal("more_containers", "number of containers of the new value minus that of the old one",
           "CASE WHEN p.old_containers > 0 AND p.new_containers > 0 THEN p.new_containers - p.old_containers END",
           number=True),
)  # fmt: skip
"""Signals of both values that do not depend on a statement. ``p`` is the pair of values, ``w`` and ``v`` are
containment, ``near`` the places that contain both."""

SNAPSHOT_SIGNALS = (
    *ENTITY_SIGNALS,
    # The dates of the statements.
    Signal("starts_in_window", "the new value's start, or point in time, is between the snapshots",
           f"{_BEGUN} > $old AND {_BEGUN_UNTIL} <= $until"),
    Signal("starts_after_old", "the new value's start, or point in time, is after the older snapshot",
           f"{_BEGUN} > $old"),
    Signal("starts_before", "the new value's start, or point in time, is before the older snapshot",
           f"{_BEGUN_UNTIL} <= $old"),
    Signal("starts_before_old_value", "the new value starts before the old one did",
           "n.start_until <= o.start_first"),
    Signal("old_ends_in_window", "the old value's end is between the snapshots",
           "coalesce(c.end_first, o.end_first) > $old AND coalesce(c.end_until, o.end_until) <= $until"),
    Signal("old_ended_before", "the old value's end is before the older snapshot",
           "coalesce(c.end_until, o.end_until) <= $old"),
    Signal("old_ended", "the old value has an end, with any date",
           "CASE WHEN p.old_object IS NOT NULL THEN coalesce(c.ended, false) END"),
    # The history of the statements.
    Signal("statement_kept", "the statement of the old value now has the new one",
           "list_has_any(o.statement_ids, n.statement_ids)"),
    Signal("old_deprecated", "the old value is stated with deprecated rank only",
           "CASE WHEN p.old_object IS NOT NULL THEN coalesce(c.deprecated, false) END"),
    Signal("old_still_stated", "the old value is still stated, but no longer current",
           "CASE WHEN p.old_object IS NOT NULL THEN coalesce(NOT c.deprecated, false) END"),
    Signal("new_stated_before", "the older snapshot states the new value, but not as current",
           "CASE WHEN p.new_object IS NOT NULL THEN b.object IS NOT NULL END"),
    Signal("preferred_rank_moved", "the preferred rank went from the old value to the new one, and both stay stated",
           "a.preferred AND d.preferred AND NOT b.preferred AND NOT c.preferred AND NOT c.deprecated"),
    Signal("held_earlier", "the new value was current in an earlier snapshot",
           "CASE WHEN p.new_object IS NOT NULL AND $earlier > 0 THEN h.object IS NOT NULL END"),
    # The subject, and what kind of property it is.
    Signal("subject_began_before", "the subject began before the older snapshot", "s.began_until <= $old"),
    Signal("subject_began_in_window", "the subject began between the snapshots",
           "s.began_first > $old AND s.began_until <= $until"),
    Signal("subject_ended_before", "the subject ended before the older snapshot", "s.ended_until <= $old"),
    Signal("subject_ended_in_window", "the subject ended between the snapshots",
           "s.ended_first > $old AND s.ended_until <= $until"),
    Signal("date_in_window", "the new value is itself a date between the snapshots",
           "n.value_first > $old AND n.value_until <= $until"),
    Signal("date_before", "the new value is itself a date before the older snapshot", "n.value_until <= $old"),
)  # fmt: skip
"""``p`` is the pair of values, ``n`` and ``o`` the facts of the new and the old value, ``a`` and ``c`` the statements
of the old value in the older and in the newer snapshot, ``b`` and ``d`` those of the new value, ``h`` earlier facts,
``s`` the subject. ``$until`` is the day after the newer snapshot."""

_PROPERTY_SIGNALS = tuple(
    Signal(name, meaning, f"p.property IN {listed(properties)}")
    for name, meaning, properties in (
        ("fixed_at_beginning", "a value of this property holds since the entity began", FIXED_AT_BEGINNING),
        ("fixed_at_end", "a value of this property holds since the entity ended", FIXED_AT_END),
        ("slow", "this property rarely gets new values within a few months", SLOW),
    )
)

CHANGE_SIGNALS = (
    Signal("gone", "number of values that went", "len(gone_objects)", number=True),
    Signal("added", "number of values that came", "len(added_objects)", number=True),
)

SIGNALS: tuple[Signal, ...] = (*CHANGE_SIGNALS, *_PROPERTY_SIGNALS, *SNAPSHOT_SIGNALS, *VALUE_SIGNALS)
"""Every signal that a rule may read."""


def signal_type(signal: Signal) -> pa.DataType:
    """Type of a signal's column."""
    return pa.float64() if signal.number else pa.bool_()


SIGNALS_OF_CHANGES = pa.schema([*VALUES, *((signal.name, signal_type(signal)) for signal in SIGNALS)])
"""One row per change: both values as text, and every signal."""


def find_signals(of: WindowChanges, *, spill: Path) -> pa.Table:
    """Compute the signals of each change.

    Args:
        of: The changes and their snapshots.
        spill: Folder for data that does not fit in memory; deleted at the end.

    Returns:
        Columns SIGNALS_OF_CHANGES, ordered by subject and property.

    Raises:
        TimestepError: if a subject and property occur twice.
    """
    parts = signals_in_parts(of, spill=spill)
    return pa.concat_tables(parts).sort_by([("subject", "ascending"), ("property", "ascending")])


def signals_in_parts(of: WindowChanges, *, spill: Path) -> Iterator[pa.Table]:
    """Signals of some thousand changes at a time, in any order; at least one part. For the rest see `find_signals`."""
    with open_engine(spill, memory=MEMORY) as connection:
        define_macros(connection)
        make_tables(connection, replace(of, changes=of.changes.select(CHANGES.names).cast(CHANGES)))
        days = {"old": of.old.date, "until": _day_after(of.new.date)}
        for _ in parts_of_pairs(connection):
            yield _compare_pairs(connection, days | {"earlier": len(of.earlier)})


def signals_of_values(values: pa.Table) -> pa.Table:
    """Signals of values as text, without snapshots: signals that need snapshots are null.

    Args:
        values: Columns VALUES; others are ignored.

    Returns:
        Columns SIGNALS_OF_CHANGES, in the order of the rows.
    """
    compared = compare_values(values.select(VALUES.names).cast(VALUES))
    seen = set(compared.schema.names)
    for signal in (*CHANGE_SIGNALS, *_PROPERTY_SIGNALS, *SNAPSHOT_SIGNALS):
        if signal.name not in seen:
            # A pair of values is one value that went and one that came.
            one = pa.scalar(1.0) if signal in CHANGE_SIGNALS else pa.scalar(None, signal_type(signal))
            compared = compared.append_column(signal.name, pa.repeat(one, compared.num_rows))
    return compared.select(SIGNALS_OF_CHANGES.names).cast(SIGNALS_OF_CHANGES)


def signals_of_known_values(values: pa.Table, snapshots: Sequence[Snapshot], *, spill: Path) -> pa.Table:
    """As `signals_of_values`, with the signals that snapshots give for both values: containment, classes, redirects,
    names.

    Missing descriptions and classes of the values are read from the snapshots; given ones are kept. Dates, ranks and
    history stay null, because the statements of the values need not be in any of the snapshots.

    Args:
        values: Columns VALUES; ``old_object`` and ``new_object`` are looked up.
        snapshots: In any order; if empty, the result is that of `signals_of_values`.
        spill: Folder for data that does not fit in memory.

    Returns:
        Columns SIGNALS_OF_CHANGES, in the order of the rows.
    """
    if not snapshots:
        return signals_of_values(values)
    numbered = values.select(VALUES.names).cast(VALUES).append_column("row_", pa.array(range(len(values)), pa.int64()))
    computed = ", ".join(f"{signal.sql} AS {signal.name}" for signal in ENTITY_SIGNALS)
    with open_engine(spill, memory=MEMORY) as connection:
        define_macros(connection)
        make_tables_of_values(connection, snapshots, numbered)
        words = ", ".join(f"p.{name}" for name in VALUES.names)
        known = connection.sql(f"SELECT {words}, {computed} FROM pair p {_CONTAINMENT} ORDER BY row_").to_arrow_table()
    signals = signals_of_values(known)
    for signal in ENTITY_SIGNALS:
        place = signals.schema.get_field_index(signal.name)
        signals = signals.set_column(place, signal.name, known[signal.name].cast(signal_type(signal)))
    return signals


_CONTAINMENT = """
    LEFT JOIN contained w ON w.inner_id = p.new_object AND w.outer_id = p.old_object
    LEFT JOIN contained v ON v.inner_id = p.old_object AND v.outer_id = p.new_object
    LEFT JOIN near ON near.old_object = p.old_object AND near.new_object = p.new_object
"""


def _compare_pairs(connection: duckdb.DuckDBPyConnection, given: Mapping[str, int]) -> pa.Table:
    of_snapshots = ", ".join(f"{signal.sql} AS {signal.name}" for signal in (*SNAPSHOT_SIGNALS, *_PROPERTY_SIGNALS))
    pairs = f"""
        SELECT p.*, {of_snapshots} FROM pair p
        LEFT JOIN new_held n ON n.subject = p.subject AND n.property = p.property AND n.object = p.new_object
        LEFT JOIN old_held o ON o.subject = p.subject AND o.property = p.property AND o.object = p.old_object
        LEFT JOIN new_stated c ON c.subject = p.subject AND c.property = p.property AND c.object = p.old_object
        LEFT JOIN old_stated b ON b.subject = p.subject AND b.property = p.property AND b.object = p.new_object
        LEFT JOIN old_stated a ON a.subject = p.subject AND a.property = p.property AND a.object = p.old_object
        LEFT JOIN new_stated d ON d.subject = p.subject AND d.property = p.property AND d.object = p.new_object
        LEFT JOIN held_earlier h ON h.subject = p.subject AND h.property = p.property AND h.object = p.new_object
        LEFT JOIN subject_dates s ON s.subject = p.subject
        {_CONTAINMENT}
    """
    # In one statement, planning both takes half as long again.
    connection.execute(f"CREATE OR REPLACE TABLE joined_pair AS {pairs}", given)
    connection.execute(f"CREATE OR REPLACE TABLE compared_pair AS {add_value_signals('FROM joined_pair')}")
    words = ", ".join(f"first({name} ORDER BY new_object, old_object) AS {name}" for name in VALUES.names[2:])
    of_pairs = (*_PROPERTY_SIGNALS, *SNAPSHOT_SIGNALS, *VALUE_SIGNALS)
    counted = ", ".join(f"{signal.sql} AS {signal.name}" for signal in CHANGE_SIGNALS)
    found: pa.Table = connection.sql(
        f"""
        WITH closest AS (
            SELECT * FROM compared_pair
            QUALIFY row_number() OVER (
                PARTITION BY subject, property, coalesce(new_object, old_object)
                ORDER BY coalesce(new_within_old, false) DESC, coalesce(old_within_new, false) DESC,
                         coalesce(text_likeness, 0) DESC, old_object) = 1
        ), judged AS (SELECT subject, property, {words}, {", ".join(_of_all(signal) for signal in of_pairs)}
                      FROM closest GROUP BY subject, property)
        SELECT {", ".join(SIGNALS_OF_CHANGES.names)}
        FROM judged JOIN (SELECT subject, property, {counted} FROM change) USING (subject, property)
        ORDER BY subject, property
        """
    ).to_arrow_table()
    return found.cast(SIGNALS_OF_CHANGES)


def _of_all(signal: Signal) -> str:
    name = signal.name
    if signal.number:
        return f"CASE WHEN count({name}) = count(*) THEN min({name}) END AS {name}"
    return f"CASE WHEN bool_or(NOT {name}) THEN false WHEN count({name}) = count(*) THEN true END AS {name}"


def _day_after(day: int) -> int:
    return day_number(date(day // 10000, day // 100 % 100, day % 100) + timedelta(days=1))
