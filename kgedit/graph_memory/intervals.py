"""Adds facts with their snapshot intervals to a memory, both current and ended ones.

Store and graph give the same facts, because the graph is a projection of the store (kgedit.store.timeline). Facts are
learned snapshot by snapshot, ends before beginnings, so that a value that returned has two intervals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from kgedit.graph_memory.graph_memory import GraphMemory
from kgedit.graph_memory.learning import LEARNED
from kgedit.store.engine import select
from kgedit.timesteps.labels import SUBJECTS, describe_subjects, is_id
from kgedit.timesteps.wording import choose_templates, word_facts

_STRINGS = pa.list_(pa.string())
DATED_FACTS = pa.schema(
    [
        *((name, pa.string()) for name in ("subject", "subject_label", "subject_description")),
        ("subject_aliases", _STRINGS),
        *((name, pa.string()) for name in ("property", "property_label", "object", "object_label")),
        *((name, pa.string()) for name in ("start_time", "end_time")),
        ("since", pa.int64()),
        ("until", pa.int64()),
    ]
)
"""Facts between items. since and until are day numbers of the first snapshot with the fact and the first one without;
start_time and end_time are those of its statement, at their precision. Labels and times may be null."""

_REASONS = (
    ("no label of the subject", f"subject_label IS NULL OR {is_id('subject_label')}"),
    ("no label of the object", f"object_label IS NULL OR {is_id('object_label')}"),
    ("no label of the property", f"property_label IS NULL OR {is_id('property_label')}"),
)


@dataclass(frozen=True, slots=True)
class Learned:
    """Counts of learned facts.

    Attributes:
        facts: Number of learned facts, including ended ones.
        left_out: Number of facts that were not learned, by reason.
    """

    facts: int
    left_out: dict[str, int]


def learn_dated_facts(
    memory: GraphMemory, facts: pa.Table, *, as_of: date, subjects: pa.Table | None = None
) -> Learned:
    """Add facts to a memory as of a day.

    Args:
        memory: Memory to extend.
        facts: Table with the schema DATED_FACTS, in any order.
        as_of: Facts that began later are not learned; ends after this day are ignored.
        subjects: Names of subjects with the schema kgedit.timesteps.labels.SUBJECTS; None means their labels.
    """
    day = as_of.year * 10_000 + as_of.month * 100 + as_of.day
    reasons = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in _REASONS)
    judged = select(
        f"""
        SELECT * REPLACE (CASE WHEN until <= $day THEN until END AS until), CASE {reasons} END AS reason
        FROM facts WHERE since <= $day ORDER BY since, subject, property, object
        """,
        {"day": day},
        facts=facts,
    )
    left_out = Counter(reason for reason in judged["reason"].to_pylist() if reason)
    kept = judged.filter(pc.is_null(judged["reason"]))
    if kept.num_rows:
        _learn(memory, kept, SUBJECTS.empty_table() if subjects is None else subjects)
    return Learned(kept.num_rows, dict(sorted(left_out.items())))


def unhinted_names(connection: duckdb.DuckDBPyConnection, facts: pa.Table) -> pa.Table:
    """Names of subjects without the hints that distinguish namesakes; the memory adds hints where needed.

    Args:
        connection: See kgedit.timesteps.labels.describe_subjects.
        facts: Table with the schema DATED_FACTS.
    """
    found = describe_subjects(connection, facts.filter(facts["subject_label"].is_valid()))
    place = found.schema.get_field_index("hinted_name")
    return found.set_column(place, "hinted_name", pa.nulls(found.num_rows, pa.string()))


def _learn(memory: GraphMemory, facts: pa.Table, subjects: pa.Table) -> None:
    worded = word_facts(facts, choose_templates(facts, catalogue=None), subjects)
    rows = select(
        f"""
        SELECT concat_ws(':', subject, property, object) AS case_id, trim(subject_label) AS subject_label,
               coalesce(subject_description, '') AS subject_description,
               coalesce(subject_aliases, []) AS subject_aliases, trim(object_label) AS object_label,
               trim(object_label) AS answer, {_stated("start_time", "since")} AS stated_since,
               CASE WHEN until IS NOT NULL THEN {_stated("end_time", "until")} END AS stated_until,
               [] AS old_objects, [] AS old_answers,
               * EXCLUDE (subject_label, subject_description, subject_aliases, object_label)
        FROM worded ORDER BY since, subject, property, object
        """,
        worded=worded,
    )
    days = sorted({day for name in ("since", "until") for day in rows[name].to_pylist() if day is not None})
    for day in days:
        ended = rows.filter(pc.equal(rows["until"], day))
        memory.end_values(ended["subject"], ended["property"], ended["object"], ended["stated_until"])
        begun = rows.filter(pc.equal(rows["since"], day))
        named = begun.drop_columns(["since"]).rename_columns({"stated_since": "since"})
        memory.learn_table(named.select(LEARNED.names).cast(LEARNED))


def _stated(own: str, seen: str) -> str:
    """SQL: the statement's date if it is valid and not after the snapshot's day, else the snapshot's day."""
    day = f"strptime({seen}::VARCHAR, '%Y%m%d')::DATE::VARCHAR"
    return rf"CASE WHEN regexp_matches({own}, '^\d{{4}}(-\d\d){{0,2}}$') AND {own} <= {day} THEN {own} ELSE {day} END"
