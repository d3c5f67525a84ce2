"""EasyEdit's files: its editions of CounterFact, ZsRE and QAEdit, KnowEdit's sets, and kgedit's own export.

prompt and target_new (WikiBio: text and labels) of each object are required. Locality questions have three forms:
locality_prompt with locality_ground_truth, a list of {loc, loc_ans}, or KnowEdit's map of groups. Its map
`portability` is split into axes, because its groups ask different things (PORTABILITY_AXES). Only kgedit's export
names relations: in other files every edit counts as a separate cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kgedit.records.cases import Axis, Case, Fact, Probe
from kgedit.timesteps.edit_files.contract import (
    SLOT,
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    filled,
    lacks,
    nearby_fact,
    probes_of,
    questions_with_answers,
    text_at,
    texts_at,
    triples_at,
)

PROMPT = ("prompt", "text")
TARGET = ("target_new", "target", "labels")
SUBJECT = ("subject", "concept")
REPHRASE = ("rephrase_prompt", "rephrase")

PORTABILITY_AXES: Mapping[str, Axis] = {
    "Reasoning": "mhop",
    "Subject_Aliasing": "alias",
    "Logical_Generalization": "consequence",
    "Personas": "personas",
}
"""Group of `portability` -> axis. Personas is kgedit's own group and ignored by EasyEdit, which knows the others."""

LOCALITY_GROUPS: Mapping[str, Axis] = {"Relation_Specificity": "locality", "Random_Neighbours": "random_locality"}
"""Group of `locality` -> axis, as written by kgedit, whose own group is the second; all other groups are locality."""


def case_of_row(row: Row, number: int, name: str) -> Case:
    """Case of one complete object.

    Args:
        row: Object with prompt and target_new or target.
        number: Index of the object in the file.
        name: Name of the file's edits.
    """
    ((case, _),) = _read_row(row, RowPlace(name, number, Counter()))
    return case


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    prompt, targets, old = text_at(row, *PROMPT), texts_at(row, *TARGET), texts_at(row, "ground_truth")
    if lacks(place, {" or ".join(PROMPT): prompt, " or ".join(TARGET): targets}):
        return
    subject, rephrases = text_at(row, *SUBJECT), texts_at(row, *REPHRASE)
    if not subject and any(SLOT in text for text in (prompt, *rephrases)):
        place.left_out[f"edits with {SLOT} in a prompt, without a subject to put there"] += 1
        return
    prompt, rephrases = prompt.replace(SLOT, subject), tuple(text.replace(SLOT, subject) for text in rephrases)
    fact = edited_fact(
        place.number,
        subject,
        targets[0],
        subject_id=text_at(row, "subject_id"),
        relation_id=text_at(row, "relation_id"),
        relation=text_at(row, "relation"),
        object_id=text_at(row, "object_id"),
    )
    answers = tuple(dict.fromkeys((*targets, *texts_at(row, "aliases"))))
    probes = (
        Probe("update", prompt, answers, (fact,)),
        *probes_of("rephrase", rephrases, answers, fact),
        *_portability(row, place, fact),
        *_locality(row, place),
    )
    tag = text_at(row, "tag")
    old_ids = texts_at(row, "old_object_ids")
    yield (
        Case(
            case_id=case_id_of(row, place, source=text_at(row, "source") or "edit"),
            timestep=place.file,
            tag="new" if tag == "new" or not old else "update",
            fact=fact,
            question=prompt,
            answer=targets[0],
            cloze=text_at(row, "cloze"),
            old_objects=old_ids or tuple(f"old-{place.number}-{index}" for index in range(len(old))),
            old_answers=old,
            probes=probes,
            category=text_at(row, "category") or None,
        ),
        CaseDetails(),
    )


def _portability(row: Row, place: RowPlace, fact: Fact) -> Iterator[Probe]:
    for index, (group, entry) in enumerate(_entries(row.get("portability"))):
        axis = PORTABILITY_AXES.get(group)
        if axis is None:
            continue  # reported in the list of unused fields
        asked = questions_with_answers(place, "portability", entry.get("prompt"), entry.get("ground_truth"))
        for nth, (question, answers) in enumerate(filled(place, "portability", asked, fact.subject_label)):
            own = f"{place.number}-{index}" + (f"-{nth}" if nth else "")
            facts = _listed_facts(entry, answers[0]) or _consequence(own, group, axis, fact, answers[0])
            yield Probe(axis, question, answers, facts)


def _consequence(own: str, group: str, axis: Axis, fact: Fact, answer: str) -> tuple[Fact, ...]:
    """Facts of a question whose ids the file does not give; the edit's own fact is first."""
    if axis in ("alias", "personas"):
        return (fact,)
    return fact, Fact(fact.object, fact.object_label, f"second-relation-{own}", group, f"second-object-{own}", answer)


def _locality(row: Row, place: RowPlace) -> Iterator[Probe]:
    flat = {"prompt": row.get("locality_prompt"), "ground_truth": row.get("locality_ground_truth")}
    seen = set()
    for group, entry in [("", flat), *_entries(row.get("locality"))]:
        questions = entry.get("prompt") or entry.get("loc")
        accepted = entry.get("ground_truth") or entry.get("loc_ans")
        axis = LOCALITY_GROUPS.get(group, "locality")
        asked = questions_with_answers(place, "locality", questions, accepted)
        for question, answers in filled(place, "locality", asked, ""):
            if (axis, question, answers) not in seen:
                seen.add((axis, question, answers))
                nearby = nearby_fact(place, len(seen) - 1, question, answers[0], group=group)
                facts = _listed_facts(entry, answers[0]) or (nearby,)
                yield Probe(axis, question, answers, facts, changed=entry.get("changed") is True)


def _entries(value: Any) -> list[tuple[str, Row]]:
    """Questions of a map of groups, or of a list, each with the name of its group."""
    groups = value.items() if isinstance(value, Mapping) else [("", value)]
    found: list[tuple[str, Row]] = []
    for group, entries in groups:
        listed = [entries] if isinstance(entries, Mapping) else entries
        if isinstance(listed, list):
            found += [(str(group), entry) for entry in listed if isinstance(entry, Mapping)]
    return found


def _listed_facts(entry: Row, answer: str) -> tuple[Fact, ...]:
    """Facts that an entry of kgedit's export gives by id."""
    triples = triples_at(entry, "ids")
    return tuple(
        Fact(subject, "", relation, "", thing, answer if index == len(triples) - 1 else "")
        for index, (subject, relation, thing) in enumerate(triples)
    )


EASYEDIT = EditFormat(
    name="easyedit",
    needs=(PROMPT, TARGET),
    texts=(*PROMPT, *TARGET, *SUBJECT, *REPHRASE, "ground_truth", "locality_prompt", "locality_ground_truth"),
    used=(
        *PROMPT,
        *TARGET,
        *SUBJECT,
        *REPHRASE,
        "ground_truth",
        "locality_prompt",
        "locality_ground_truth",
        "locality.loc",
        "locality.loc_ans",
        "locality.*.prompt",
        "locality.*.ground_truth",
        "locality.*.ids",
        "locality.*.changed",
        *(f"portability.{group}.{field}" for group in PORTABILITY_AXES for field in ("prompt", "ground_truth", "ids")),
        "case_id",
        "id",
        "source",
        "tag",
        "category",
        "cloze",
        "aliases",
        "subject_id",
        "relation_id",
        "relation",
        "object_id",
        "old_object_ids",
    ),
    unusable={
        "cond": "prompt and both answers in one text, which MEND and SERAC train on",
        "projected": "it describes how the snapshots were made",
        "portability.*": "no axis asks for what this group asks",
        **{f"{part}_by": "how build-qaedit made it" for part in ("subject", "rephrase", "category")},
    },
    read_row=_read_row,
)
"""Source: easyeditor/dataset/knowedit.py, zsre.py and counterfact.py of zjunlp/EasyEdit, and KnowEdit's description."""
