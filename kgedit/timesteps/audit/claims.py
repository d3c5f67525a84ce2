"""Claims of a file's rows as Arrow tables: edits, locality questions, two-hop questions, and questions' answers.

An id that the file does not give is null and resolved later from its label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kgedit.records.cases import Case, Fact
from kgedit.timesteps.edit_files import EditFile, Edits
from kgedit.timesteps.edit_files.contract import CaseDetails
from kgedit.timesteps.timestep import Timestep
from kgedit.wikidata.ids import is_entity_id

_STRINGS = pa.list_(pa.string())

_LITERAL = re.compile("V[0-9a-f]{32}").fullmatch
"""Matches the id of a literal, as in facts and timesteps (kgedit.store.facts)."""

EDITS = pa.schema(
    [
        ("place", pa.int64()),
        ("case_id", pa.string()),
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("answer", pa.string()),
        ("question", pa.string()),
        ("tag", pa.string()),  # null if the file's format declares none
        ("old_objects", _STRINGS),  # ids; empty if the file gives none
        ("old_answers", _STRINGS),
        ("other_objects", _STRINGS),  # ids or labels of other facts in the row
        ("several_allowed", pa.bool_()),
        ("new_entity", pa.bool_()),
    ]
)

HOPS = pa.schema(
    [
        ("place", pa.int64()),
        ("probe", pa.int64()),
        ("subject", pa.string()),
        ("property", pa.string()),
        ("object", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),
    ]
)

"""The second fact: its subject is null if the file does not give it."""

NEAR = HOPS.append(pa.field("may_have_changed", pa.bool_()))
"""Fact of a locality question, and whether the file states that it became true in the window."""

QUESTIONS = pa.schema(
    [
        ("place", pa.int64()),
        ("part", pa.string()),
        ("probe", pa.int64()),
        ("question", pa.string()),
        ("answer", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Tables with the schemas EDITS, NEAR, HOPS and QUESTIONS."""

    edits: pa.Table
    near: pa.Table
    hops: pa.Table
    questions: pa.Table


def claimed_rows(edits: Edits) -> Claimed:
    """Collect all claims of the rows, in the order of the file."""
    rows: dict[str, list[dict[str, Any]]] = {"edits": [], "near": [], "hops": [], "questions": []}
    declares_tag = edits.edit_format.declares_tag if isinstance(edits, EditFile) else True
    one_value = edits.edit_format.one_value if isinstance(edits, EditFile) else not _lists_all_values(edits)
    for place, (case, details) in enumerate(_with_details(edits)):
        rows["edits"].append(_edit(place, case, details, declares_tag=declares_tag, one_value=one_value))
        for number, probe in enumerate(case.probes):
            asked = {"place": place, "probe": number, "question": probe.question, "answer": probe.answers[0]}
            if probe.axis == "locality":
                rows["near"].append(asked | _ids(probe.facts[0]) | {"may_have_changed": probe.changed})
                part = "locality"
            elif probe.axis == "mhop":
                rows["hops"].append(asked | _ids(probe.facts[-1]))
                part = "two hops"
            else:
                part = "edit"
            rows["questions"].append({"part": part, **asked})
    schemas = {"edits": EDITS, "near": NEAR, "hops": HOPS, "questions": QUESTIONS}
    return Claimed(**{name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in schemas.items()})


def _with_details(edits: Edits) -> Iterator[tuple[Case, CaseDetails]]:
    if isinstance(edits, EditFile):
        return edits.details()
    scenario = "AddEntity" if _lists_all_values(edits) else None
    return ((case, CaseDetails(scenario=scenario)) for case in edits.cases())


def _lists_all_values(edits: Edits) -> bool:
    """Whether edits are a timestep of WikiFactDiff's profile, where several values and new subjects are valid."""
    return isinstance(edits, Timestep) and edits.manifest.get("profile") == "wikifactdiff"


def _edit(place: int, case: Case, details: CaseDetails, *, declares_tag: bool, one_value: bool) -> dict[str, Any]:
    return {
        "place": place,
        "case_id": case.case_id,
        "subject_label": case.fact.subject_label,
        "answer": case.answer,
        "question": case.question,
        "tag": case.tag if declares_tag else None,
        "old_objects": [old for old in case.old_objects if _is_id(old)],
        "old_answers": list(case.old_answers),
        "other_objects": list(details.other_objects),
        "several_allowed": not one_value,
        "new_entity": details.scenario == "AddEntity",
        **_ids(case.fact),
    }


def _ids(fact: Fact) -> dict[str, str | None]:
    given = {"subject": fact.subject, "property": fact.property, "object": fact.object}
    return {name: value if _is_id(value) else None for name, value in given.items()}


def _is_id(text: str) -> bool:
    return is_entity_id(text) or _LITERAL(text) is not None
