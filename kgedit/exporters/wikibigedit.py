"""WikiBigEdit's published JSON format, followed by additional fields for ids and old answers.

It has two hops and one locality question at most, and no cloze: longer chains, random neighbours of the profile
WikiFactDiff and clozes are in the timestep's own tables only.
"""

from __future__ import annotations

from pathlib import Path

from kgedit.records.cases import Case
from kgedit.store.files import array_text, write_text
from kgedit.timesteps.timestep import Timestep


def export(timestep: Timestep) -> Path:
    """Write wikibigedit.json into the timestep's folder: a JSON array, one object per line, in case order."""
    mark = {"projected": True} if timestep.is_projected else {}
    path = timestep.folder / "wikibigedit.json"
    write_text(path, array_text(_row(case) | mark for case in timestep.cases()))
    return path


def _row(case: Case) -> dict[str, object]:
    asked = {probe.axis: probe for probe in case.probes if probe.chain is None}
    rephrase, framed = asked.get("rephrase"), asked.get("personas")
    locality, chain = asked.get("locality"), asked.get("mhop")
    return {
        "tag": case.tag,
        "subject": case.fact.subject_label,
        "update": case.question,
        "rephrase": rephrase.question if rephrase else None,
        "personas": framed.question if framed else None,
        "ans": case.answer,
        "loc": locality.question if locality else None,
        "loc_ans": locality.answers[0] if locality else None,
        "mhop": chain.question if chain else None,
        "mhop_ans": chain.answers[0] if chain else None,
        "case_id": case.case_id,
        "subject_id": case.fact.subject,
        "relation_id": case.fact.property,
        "relation": case.fact.property_label,
        "object_id": case.fact.object,
        "old_object_ids": list(case.old_objects),
        "old_ans": list(case.old_answers),
        "aliases": list(case.probes[0].answers[1:]),
        "start_time": case.start_time,
        "point_in_time": case.point_in_time,
        "as_of": case.as_of,
        "kind": case.kind,
        "scenario": case.scenario,
        "loc_ids": _ids(case, "locality"),
        "loc_changed": locality.changed if locality else None,
        "loc_aliases": list(locality.answers[1:]) if locality else [],
        "mhop_ids": _ids(case, "mhop"),
        "mhop_aliases": list(chain.answers[1:]) if chain else [],
    }


def _ids(case: Case, axis: str) -> list[list[str]] | None:
    for probe in case.probes:
        if probe.axis == axis and probe.chain is None:
            return [[fact.subject, fact.property, fact.object] for fact in probe.facts]
    return None
