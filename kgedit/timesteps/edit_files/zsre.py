"""ZsRE as published with MEND and ROME: src, alt, rephrase, loc, loc_ans, with the subject.

`alt` is the target and `answers` held before, as read by EasyEdit and MEND (ROME uses `answers` as target). `loc` is a
question of Natural Questions with a prefix meant for T5, and without its question mark.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgedit.records.cases import Case, Fact, Probe
from kgedit.timesteps.edit_files.contract import (
    ESSAY,
    NO_ESSAYS,
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    essay_probes,
    lacks,
    mapping_at,
    nearby_fact,
    probes_of,
    questions_with_answers,
    text_at,
    texts_at,
)

_PREFIX = "nq question: "


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    prompt, target, old = text_at(row, "src"), text_at(row, "alt"), texts_at(row, "answers")
    if lacks(place, {"src": prompt, "alt": target}):
        return
    fact = edited_fact(place.number, text_at(row, "subject"), target)
    probes = (
        Probe("update", prompt, (target,), (fact,)),
        *probes_of("rephrase", texts_at(row, "rephrase"), (target,), fact),
        *_reasoning(row, place, fact),
        *essay_probes(row, target, fact),
        *_locality(row, place),
    )
    yield (
        Case(
            case_id=case_id_of(row, place),
            timestep=place.file,
            tag="update" if old else "new",
            fact=fact,
            question=prompt,
            answer=target,
            cloze="",
            old_objects=tuple(f"old-{place.number}-{index}" for index in range(len(old))),
            old_answers=old,
            probes=probes,
        ),
        CaseDetails(),
    )


def _reasoning(row: Row, place: RowPlace, fact: Fact) -> Iterator[Probe]:
    """Yield the two-hop question that the portability edition of the dataset adds."""
    added = mapping_at(row, "portability")
    question, answers = text_at(added, "New Question"), texts_at(added, "New Answer")
    if question and answers:
        own = place.number
        second = Fact(fact.object, fact.object_label, f"second-relation-{own}", "", f"second-object-{own}", answers[0])
        yield Probe("mhop", question, answers, (fact, second))


def _locality(row: Row, place: RowPlace) -> Iterator[Probe]:
    asked = questions_with_answers(place, "locality", row.get("loc"), row.get("loc_ans"))
    for index, (written, answers) in enumerate(asked):
        question = written.removeprefix(_PREFIX)
        question = question if question.endswith("?") else f"{question}?"
        yield Probe("locality", question, answers, (nearby_fact(place, index, question, answers[0]),))


ZSRE = EditFormat(
    name="zsre",
    needs=(("src",), ("alt",)),
    texts=("subject", "src", "alt", "answers", "rephrase", "loc", "loc_ans"),
    used=(
        "subject",
        "src",
        "alt",
        "answers",
        "rephrase",
        "loc",
        "loc_ans",
        "portability.New Question",
        "portability.New Answer",
        "case_id",
        "id",
        ESSAY,
    ),
    unusable={
        **NO_ESSAYS,
        "pred": "what a model of the set's makers answered",
        "cond": "prompt and both answers in one text, which MEND and SERAC train on",
        "portability.Recalled Relation": "the second fact in words, without ids",
    },
    read_row=_read_row,
)
"""Source: dsets/zsre.py of kmeng01/rome, easyeditor/dataset/zsre.py of zjunlp/EasyEdit."""
