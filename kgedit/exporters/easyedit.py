"""EasyEdit's JSON format of KnowEdit, with additional fields for ids and accepted answers.

A group of `locality` or `portability` is a list of {prompt, ground_truth}; their `ids` and the groups Personas and
Random_Neighbours are kgedit's. EasyEdit reads groups and fields by name and ignores unknown ones. The form has no place
for dates, kinds of change, and chains of more than two hops.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kgedit.records.cases import Axis, Case, Probe
from kgedit.store.files import array_text, write_text
from kgedit.timesteps.edit_files.easyedit import LOCALITY_GROUPS, PORTABILITY_AXES
from kgedit.timesteps.timestep import Timestep


def export(timestep: Timestep) -> Path:
    """Write easyedit.json into the timestep's folder: a JSON array, one object per line, in case order."""
    mark = {"projected": True} if timestep.is_projected else {}
    path = timestep.folder / "easyedit.json"
    write_text(path, array_text(_row(case) | mark for case in timestep.cases()))
    return path


def _row(case: Case) -> dict[str, object]:
    rephrases = _questions(case, "rephrase")
    answers = case.probes[0].answers
    return {
        "subject": case.fact.subject_label,
        "prompt": case.question,
        "target_new": case.answer,
        # A string if there is one old answer, as in EasyEdit's sets; otherwise a list and null.
        "ground_truth": case.old_answers[0] if len(case.old_answers) == 1 else list(case.old_answers) or None,
        "rephrase_prompt": rephrases[0] if len(rephrases) == 1 else rephrases or None,
        "locality": _groups(case, LOCALITY_GROUPS),
        "portability": _groups(case, PORTABILITY_AXES),
        "case_id": case.case_id,
        "tag": case.tag,
        "subject_id": case.fact.subject,
        "relation_id": case.fact.property,
        "relation": case.fact.property_label,
        "object_id": case.fact.object,
        "aliases": list(answers[1:]),
        "old_object_ids": list(case.old_objects),
        "cloze": case.cloze,
    }


def _questions(case: Case, axis: Axis) -> list[str]:
    return [probe.question for probe in case.probes if probe.axis == axis]


def _groups(case: Case, axes: Mapping[str, Axis]) -> dict[str, list[dict[str, object]]]:
    asked = [probe for probe in case.probes if probe.chain is None]
    found = {group: [_entry(probe) for probe in asked if probe.axis == axis] for group, axis in axes.items()}
    return {group: entries for group, entries in found.items() if entries}


def _entry(probe: Probe) -> dict[str, object]:
    ids = [[fact.subject, fact.property, fact.object] for fact in probe.facts]
    entry: dict[str, object] = {"prompt": probe.question, "ground_truth": [list(probe.answers)], "ids": ids}
    return entry | ({"changed": True} if probe.changed else {})
