"""The WikiFactDiff profile: facts that became true, ended or stayed, in six scenarios, with neighbours.

Source: Ammar Khodja et al., "WikiFactDiff: A Large, Realistic, and Temporally Adaptable Dataset for Atomic Factual
Knowledge Update in Causal Language Models", LREC-COLING 2024. Differences: docs/wikifactdiff.md. Here are the tables of
such a timestep, in addition to those of every timestep (kgedit.timesteps.timestep).

A case's neighbours are locality probes: the nearest, and random ones from those of all updates. A triple is not used if
its object is an object of the case, or if its question fails a final filter: the export leaves it null (timesteps of
earlier versions have it, so questions that give the answer away are also filtered here).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.records.cases import Axis, Probe
from kgedit.store.engine import open_in_memory
from kgedit.timesteps.filters import gives_away
from kgedit.timesteps.tables import ALIKE, EVIDENCE_RANK, TimestepTables, answers_in, fact_in

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
        ("evidence", pa.string()),  # dated or edited (kgedit.timesteps.tables); null without evidence
    ]
)
"""neighbours.parquet: unchanged triples of the older snapshot, in the order of the updates."""

CREATED_ENTITIES = pa.schema(
    [
        ("id", pa.string()),
        ("label", pa.string()),
        ("description", pa.string()),
        ("created", pa.string()),  # the earliest date of creation, at its precision ("2022-03")
        ("property", pa.string()),  # property with that date; the first in the paper's list if several have it
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


_AXES: dict[str, Axis] = {"nearest": "locality", "random": "random_locality"}


def has_neighbours(timestep: TimestepTables) -> bool:
    """Whether a timestep has the neighbours of its cases."""
    return has_own_tables(timestep) and (timestep.folder / "neighbours.parquet").is_file()


def neighbour_probes(timestep: TimestepTables, most: int) -> Iterator[tuple[str, Probe]]:
    """Yield case ids with their probes, ordered by case, nearest first, then random ones.

    Args:
        timestep: TimestepTables of the profile WikiFactDiff.
        most: Maximum number of probes of each case on either axis.
    """
    with open_in_memory() as connection:
        connection.register(
            "cases", timestep.table("cases").select(["case_id", "subject", "property", "object", "old_objects"])
        )
        connection.register("neighbours", _read_neighbours(timestep))
        rows = connection.sql(_PROBES, params={"most": most}).to_arrow_table()
    for row in rows.to_pylist():
        yield (
            row["case_id"],
            Probe(
                _AXES[row["basis"]],
                row["question"],
                answers_in(row),
                (fact_in(row),),
                cloze=row["cloze"] or "",
                similarity=row["similarity"],
                popularity=row["popularity"],
                basis=row["basis"],
                evidence=row["evidence"],
            ),
        )


def subject_popularities(timestep: TimestepTables) -> dict[tuple[str, str], float]:
    """Subject and property of each update -> popularity of the subject, if the timestep has it."""
    if not has_own_tables(timestep):
        return {}
    rows = own_table(timestep, "updates").select(["subject", "property", "popularity"]).to_pylist()
    return {(row["subject"], row["property"]): row["popularity"] for row in rows if row["popularity"] is not None}


def replaced(timestep: TimestepTables) -> dict[tuple[str, str], bool]:
    """Subject and property of each update -> whether it belongs to WFD_repl, if the timestep has it."""
    if not has_own_tables(timestep):
        return {}
    rows = own_table(timestep, "updates").select(["subject", "property", "in_replacement_set"]).to_pylist()
    return {(row["subject"], row["property"]): row["in_replacement_set"] for row in rows}


def update_scenarios(timestep: TimestepTables) -> dict[tuple[str, str], str]:
    """Subject and property of each update -> its scenario, which cases of earlier versions do not record."""
    if not has_own_tables(timestep):
        return {}
    rows = own_table(timestep, "updates").select(["subject", "property", "scenario"]).to_pylist()
    return {(row["subject"], row["property"]): row["scenario"] for row in rows}


def _read_neighbours(timestep: TimestepTables) -> pa.Table:
    # Timesteps of earlier versions have no popularity or evidence: both are then null.
    return pq.read_table(timestep.folder / "neighbours.parquet", schema=NEIGHBOURS)


_PROBES = f"""
    SELECT c.case_id, n.basis, n.neighbour AS subject, n.neighbour_label AS subject_label,
           n.neighbour_property AS property, n.neighbour_property_label AS property_label, n.object, n.object_label,
           n.object_aliases, n.similarity, n.popularity, n.question, n.cloze, n.evidence
    FROM cases c JOIN neighbours n ON n.subject = c.subject AND n.property = c.property
    WHERE n.object <> c.object AND NOT list_contains(c.old_objects, n.object)
          AND n.question IS NOT NULL AND NOT {gives_away("n.question", "n.object_label")}
    QUALIFY row_number() OVER (
        PARTITION BY c.case_id, n.basis ORDER BY round(n.similarity, {ALIKE}) DESC, {EVIDENCE_RANK} DESC, n.place
    ) <= $most
    ORDER BY c.case_id, n.basis, n.place
"""
