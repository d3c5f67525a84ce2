"""HalluEditBench: facts that a model states wrongly, with questions in many forms; one CSV file a topic and model.

Its questions of several hops do not name the facts between the edit and their answer. Questions answered by yes, no or
a letter are left out: a model that always says yes would know half of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgedit.records.cases import Case, Chain, Fact, Probe
from kgedit.timesteps.edit_files.contract import (
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    lacks,
    probes_of,
    text_at,
)

_HOPS = (2, 3, 4, 5, 6)


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    question, subject, answer = (text_at(row, name) for name in ("question", "subject", "object"))
    if lacks(place, {"question": question, "subject": subject, "object": answer}):
        return
    fact = edited_fact(place.number, subject, answer, relation=text_at(row, "relation"))
    case_id = case_id_of(row, place, source=text_at(row, "topic") or "edit")
    other = text_at(row, "paraphrased_question")
    probes = (
        Probe("update", question, (answer,), (fact,)),
        *probes_of("rephrase", (other,) if other else (), (answer,), fact),
        *_reversed(row, place, fact),
        *_hops(row, place, case_id, fact),
    )
    yield (
        Case(
            case_id=case_id,
            timestep=place.file,
            tag="new",
            fact=fact,
            question=question,
            answer=answer,
            cloze="",
            old_objects=(),
            old_answers=(),
            probes=probes,
        ),
        CaseDetails(),
    )


def _reversed(row: Row, place: RowPlace, fact: Fact) -> Iterator[Probe]:
    question = text_at(row, "reversed_relation_question")
    if question:
        own = place.number
        back = Fact(fact.object, fact.object_label, f"reversed-{own}", "", fact.subject, fact.subject_label)
        yield Probe("consequence", question, (fact.subject_label,), (fact, back))


def _hops(row: Row, place: RowPlace, case_id: str, fact: Fact) -> Iterator[Probe]:
    for hops in _HOPS:
        question, answer = text_at(row, f"question_{hops}hop"), text_at(row, f"answer_{hops}hop")
        if not question:
            continue
        if not answer:
            place.left_out["multi-hop questions without an answer"] += 1
            continue
        own = f"{place.number}-{hops}"
        last = Fact(fact.object, fact.object_label, f"path-{own}", "", f"path-object-{own}", answer)
        chain = Chain(f"{case_id}-{hops}", hops) if hops > 2 else None
        yield Probe("mhop", question, (answer,), (fact, last), chain=chain)


_WITHOUT_EVIDENCE = "yes, no or a letter is right by chance too often"

HALLUEDIT = EditFormat(
    name="halluedit",
    needs=(("question",), ("subject",), ("object",), ("paraphrased_question", "question_2hop")),
    texts=(
        "question",
        "subject",
        "object",
        "relation",
        "topic",
        "paraphrased_question",
        "reversed_relation_question",
        *(f"{part}_{hops}hop" for hops in _HOPS for part in ("question", "answer")),
    ),
    used=(
        "id",
        "case_id",
        "topic",
        "subject",
        "relation",
        "object",
        "question",
        "paraphrased_question",
        "reversed_relation_question",
        *(f"{part}_{hops}hop" for hops in _HOPS for part in ("question", "answer")),
    ),
    unusable={
        "locality_question": "the file gives no answer to it",
        "yes_question": _WITHOUT_EVIDENCE,
        "no_question": _WITHOUT_EVIDENCE,
        "multiple_choice_with_letters": _WITHOUT_EVIDENCE,
        "multiple_choice_labels": _WITHOUT_EVIDENCE,
    },
    read_row=_read_row,
)
"""Source: data/questions/hallucination_final of llm-editing/HalluEditBench, as code/edit_all_method.py reads it."""
