"""Tables of a WikiFactDiff timestep, in addition to those of every timestep (kgedit.timesteps.timestep)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.timesteps.tables import TimestepTables

PROFILE = "wikifactdiff"

_GROUP = [("subject", pa.string()), ("property", pa.string())]

UPDATES = pa.schema(
    [
        *_GROUP,
        ("subject_label", pa.string()),
        ("subject_description", pa.string()),
        ("property_label", pa.string()),
        ("property_description", pa.string()),
        ("scenario", pa.string()),
        ("subject_is_new", pa.bool_()),
        ("temporal_functional", pa.bool_()),  # according to functional_by in the settings
        ("in_replacement_set", pa.bool_()),  # WFD_repl, populations undersampled
        ("popularity", pa.float64()),  # ln(median monthly views + 1); null without page views
        ("popularity_basis", pa.string()),  # page views, class or median of all
        ("question", pa.string()),
        ("rephrase", pa.string()),
        ("cloze", pa.string()),
        ("rephrases", pa.list_(pa.string())),
        ("clozes", pa.list_(pa.string())),  # one for the edit, and four to test generalization
        ("template", pa.string()),
    ]
)
"""updates.parquet: one row for each subject and relation, the most popular subject first."""

OBJECTS = pa.schema(
    [
        *_GROUP,
        ("object", pa.string()),  # id of an item, or V... for a literal
        ("object_label", pa.string()),  # a literal in text form
        ("object_description", pa.string()),  # for a literal: Date, Month, Year, Quantity or String
        ("object_aliases", pa.list_(pa.string())),
        ("decision", pa.string()),  # new, obsolete or static
        ("rule", pa.string()),  # the deciding rule
        ("side", pa.string()),  # old, new or both: the snapshots that have the value
        ("value_type", pa.string()),  # type of a literal: quantity, time, monolingualtext or string
        ("value", pa.string()),
        ("unit", pa.string()),
        ("language", pa.string()),
        ("precision", pa.string()),
        ("calendar", pa.string()),
        ("start_time", pa.string()),
        ("end_time", pa.string()),
        ("point_time", pa.string()),
        ("old_statement_id", pa.string()),
        ("new_statement_id", pa.string()),
    ]
)
"""objects.parquet: the values of each update, in its order; new, then obsolete, then static."""

NEIGHBOURS = pa.schema(
    [
        *_GROUP,
        ("basis", pa.string()),  # nearest or random
        ("place", pa.int64()),  # from 1
        ("neighbour", pa.string()),
        ("neighbour_label", pa.string()),
        ("neighbour_description", pa.string()),
        ("neighbour_property", pa.string()),  # equal to the update's if basis is nearest
        ("neighbour_property_label", pa.string()),
        ("object", pa.string()),
        ("object_label", pa.string()),
        ("object_description", pa.string()),
        ("object_aliases", pa.list_(pa.string())),
        ("similarity", pa.float64()),  # cosine; null for random neighbours
        ("popularity", pa.float64()),  # of the neighbour; null without page views
        ("question", pa.string()),  # null if it belongs to a case and fails a final filter
        ("rephrase", pa.string()),
        ("cloze", pa.string()),  # drawn from the template's five
        ("evidence", pa.string()),  # dated or edited (kgedit.timesteps.evidence); null without evidence
    ]
)
"""neighbours.parquet: unchanged triples of the older snapshot, in the order of the updates."""

CREATED_ENTITIES = pa.schema(
    [
        ("id", pa.string()),
        ("label", pa.string()),
        ("description", pa.string()),
        ("created", pa.string()),  # the earliest date of creation, at its precision ("2022-03")
        ("property", pa.string()),  # property with that date; of several the first in the paper's list
        ("property_label", pa.string()),
    ]
)
"""created_entities.parquet: the paper's set E+ of new entities (section 4.2), by id, including those without a kept
update; absent in timesteps of earlier versions."""

OWN_TABLES = {
    "updates": UPDATES,
    "objects": OBJECTS,
    "neighbours": NEIGHBOURS,
    "created_entities": CREATED_ENTITIES,
}


def has_own_tables(timestep: TimestepTables) -> bool:
    """Whether a timestep is of this profile."""
    return timestep.manifest.get("profile") == PROFILE


def own_table(timestep: TimestepTables, name: str) -> pa.Table:
    """Read one of OWN_TABLES; empty if an earlier version did not write it."""
    path = timestep.folder / f"{name}.parquet"
    return pq.read_table(path, schema=OWN_TABLES[name]) if path.is_file() else OWN_TABLES[name].empty_table()
