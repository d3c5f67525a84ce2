"""Questions of a timestep as flat tables, one per axis, for use with `datasets.load_dataset`.

A timestep's own tables have different columns, so the hub's loader cannot read them as one data set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from kgedit.errors import TimestepError
from kgedit.records.cases import AXES, Case, Fact, Probe
from kgedit.timesteps.timestep import Timestep

_STRINGS = pa.list_(pa.string())

QUESTIONS = pa.schema(
    [
        ("case_id", pa.string()),
        ("question", pa.string()),
        ("answers", _STRINGS),
        ("facts", _STRINGS),
        ("second_case_id", pa.string()),
        ("changed", pa.bool_()),
        ("edit_question", pa.string()),
        ("edit_cloze", pa.string()),
        ("edit_answer", pa.string()),
        ("old_answers", _STRINGS),
        ("tag", pa.string()),
        ("kind", pa.string()),
        ("subject", pa.string()),
        ("subject_label", pa.string()),
        ("relation", pa.string()),
        ("relation_label", pa.string()),
        ("object", pa.string()),
        ("object_label", pa.string()),
        ("start_time", pa.string()),
        ("point_in_time", pa.string()),
        ("as_of", pa.string()),
        ("projected", pa.bool_()),
    ]
)
"""One row per question, in the order of the cases. COLUMNS describes the columns."""

COLUMNS = {
    "case_id": "the edit that the question belongs to, SUBJECT:PROPERTY:OBJECT",
    "question": "what the model is asked",
    "answers": "accepted answers, the label first, then aliases",
    "facts": "the facts that answer it, SUBJECT:PROPERTY:OBJECT; two, in order, for a two-hop question",
    "second_case_id": "the edit that a two-hop question's second fact belongs to; null where it is none",
    "changed": "locality: the fact became true in the window itself, so a model of the older date does not know it",
    "edit_question": "the edit's prompt",
    "edit_cloze": "the edit as a statement that breaks off where the answer stands",
    "edit_answer": "the edit's target",
    "old_answers": "what was true at the older date; empty where the subject had no value",
    "tag": "update: an old value was replaced; new: there was none",
    "kind": "what the change was (update, backfill, ...); null where nobody judged it",
    "subject": "Wikidata's id of the edit's subject",
    "subject_label": "its English label",
    "relation": "Wikidata's id of the edit's property",
    "relation_label": "its English label",
    "object": "Wikidata's id of the edit's object",
    "object_label": "its English label",
    "start_time": "when the statement says that the fact began, at its precision; null where it does not say",
    "point_in_time": "when it says that the fact held, likewise",
    "as_of": "day of the newer snapshot, on which the edit holds",
    "projected": "one of the two snapshots is projected from a later dump",
}
"""Description of each column of QUESTIONS, used by the card and Croissant."""


@dataclass(frozen=True, slots=True)
class PublishedTimestep:
    """A timestep as a configuration of a data set.

    Attributes:
        config: Name of the configuration: that of the timestep, plus the profile unless it is wikibigedit.
        timestep: The timestep.
        questions: Axis -> rows of QUESTIONS; axes without questions are absent.
    """

    config: str
    timestep: Timestep
    questions: dict[str, pa.Table]

    @property
    def cases(self) -> int:
        """Number of edits; each has one update question."""
        return int(self.questions["update"].num_rows)

    @property
    def dates(self) -> tuple[str, str]:
        """Dates of the older and the newer snapshot, YYYY-MM-DD."""
        older, newer = (f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in self.timestep.name.split("_"))
        return older, newer


def publish_timestep(timestep: Timestep) -> PublishedTimestep:
    """Convert a timestep's questions to tables.

    Raises:
        TimestepError: if it has no case, or its name does not consist of two dates.
    """
    if not re.fullmatch(r"\d{8}_\d{8}", timestep.name, re.ASCII):
        raise TimestepError(
            f"The timestep {timestep.folder} is called '{timestep.name}'. Only one that is called by two days, as "
            "20210104_20230227, can be published."
        )
    profile = timestep.manifest.get("profile", "wikibigedit")
    config = timestep.name + ("" if profile == "wikibigedit" else f"_{profile}")
    questions = question_tables(timestep)
    if not questions:
        raise TimestepError(f"The timestep {timestep.folder} has no case: there is nothing to publish. Leave it out.")
    return PublishedTimestep(config, timestep, questions)


def question_tables(timestep: Timestep) -> dict[str, pa.Table]:
    """Axis -> rows of QUESTIONS, in the order of AXES; axes without questions are left out."""
    rows: dict[str, list[dict[str, object]]] = {axis: [] for axis in AXES}
    for case in timestep.cases(two_hop_rephrases=True):
        told = _case(case) | {"projected": timestep.is_projected}
        for probe in case.probes:
            rows[probe.axis].append(_probe(probe) | told)
    return {axis: pa.Table.from_pylist(found, schema=QUESTIONS) for axis, found in rows.items() if found}


def _probe(probe: Probe) -> dict[str, object]:
    return {
        "question": probe.question,
        "answers": list(probe.answers),
        "facts": [_ids(fact) for fact in probe.facts],
        "second_case_id": probe.second_case_id,
        "changed": probe.changed,
    }


def _case(case: Case) -> dict[str, object]:
    return {
        "case_id": case.case_id,
        "edit_question": case.question,
        "edit_cloze": case.cloze,
        "edit_answer": case.answer,
        "old_answers": list(case.old_answers),
        "tag": case.tag,
        "kind": case.kind,
        "subject": case.fact.subject,
        "subject_label": case.fact.subject_label,
        "relation": case.fact.property,
        "relation_label": case.fact.property_label,
        "object": case.fact.object,
        "object_label": case.fact.object_label,
        "start_time": case.start_time,
        "point_in_time": case.point_in_time,
        "as_of": case.as_of,
    }


def _ids(fact: Fact) -> str:
    return f"{fact.subject}:{fact.property}:{fact.object}"
