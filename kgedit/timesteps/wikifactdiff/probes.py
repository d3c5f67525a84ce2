"""Neighbours of a timestep's cases as locality probes: the nearest, and random ones from those of all updates.

A triple is not used if its object is an object of the case, or if its question fails a final filter: the export leaves
it null (timesteps of earlier versions have it, so questions that give the answer away are also filtered here).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.records.cases import Axis, Probe
from kgedit.store.engine import open_in_memory
from kgedit.timesteps.evidence import ALIKE, EVIDENCE_RANK
from kgedit.timesteps.final_filters import gives_away
from kgedit.timesteps.tables import TimestepTables, answers_in, fact_in
from kgedit.timesteps.wikifactdiff.tables import NEIGHBOURS, has_own_tables, own_table

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
"""  # noqa: S608 - our own names
