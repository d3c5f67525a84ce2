"""WikiBigEdit's sets, and kgedit's export in that format, which adds ids and old answers after the published fields."""

from __future__ import annotations

from collections.abc import Iterator

from kgedit.records.cases import Case, Fact, Probe
from kgedit.timesteps.edit_files.contract import (
    CaseDetails,
    EditFormat,
    ReadCase,
    Row,
    RowPlace,
    case_id_of,
    edited_fact,
    lacks,
    nearby_fact,
    probes_of,
    questions_with_answers,
    text_at,
    texts_at,
    triples_at,
)

_PUBLISHED = (
    "tag",
    "subject",
    "update",
    "rephrase",
    "personas",
    "ans",
    "loc",
    "loc_ans",
    "mhop",
    "mhop_ans",
)
_DETAILS = ("scenario", "kind", "start_time", "point_in_time")


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    question, answer = text_at(row, "update"), text_at(row, "ans")
    if lacks(place, {"update": question, "ans": answer}):
        return
    fact = edited_fact(
        place.number,
        text_at(row, "subject"),
        answer,
        subject_id=text_at(row, "subject_id"),
        relation_id=text_at(row, "relation_id"),
        relation=text_at(row, "relation"),
        object_id=text_at(row, "object_id"),
    )
    answers = tuple(dict.fromkeys((answer, *texts_at(row, "aliases"))))
    old, tag = texts_at(row, "old_ans"), text_at(row, "tag")
    yield (
        Case(
            case_id=case_id_of(row, place),
            timestep=place.file,
            tag="update" if tag == "update" or (old and not tag) else "new",
            fact=fact,
            question=question,
            answer=answer,
            cloze=text_at(row, "cloze"),
            old_objects=texts_at(row, "old_object_ids"),
            old_answers=old,
            probes=(
                Probe("update", question, answers, (fact,)),
                *probes_of("rephrase", texts_at(row, "rephrase"), answers, fact),
                *probes_of("personas", texts_at(row, "personas"), answers, fact),
                *_two_hops(row, place, fact),
                *_locality(row, place, fact),
            ),
            start_time=text_at(row, "start_time") or None,
            point_in_time=text_at(row, "point_in_time") or None,
            kind=text_at(row, "kind") or None,
            as_of=text_at(row, "as_of") or None,
            scenario=text_at(row, "scenario") or None,
        ),
        CaseDetails(
            scenario=text_at(row, "scenario") or None,
            kind=text_at(row, "kind") or None,
            start_time=text_at(row, "start_time") or None,
            point_in_time=text_at(row, "point_in_time") or None,
        ),
    )


def _two_hops(row: Row, place: RowPlace, fact: Fact) -> Iterator[Probe]:
    asked = _asked(row, place, "mhop", "two-hop")
    listed = triples_at(row, "mhop_ids") if len(asked) == 1 else []
    bridge, relation, thing = listed[1] if len(listed) > 1 else (fact.object, "", "")
    for index, (question, answers) in enumerate(asked):
        own = f"{place.number}-{index}" if index else str(place.number)
        second = Fact(
            bridge,
            fact.object_label,
            relation or f"second-relation-{own}",
            "",
            thing or f"second-object-{own}",
            answers[0],
        )
        yield Probe("mhop", question, answers, (fact, second))


def _locality(row: Row, place: RowPlace, fact: Fact) -> Iterator[Probe]:
    asked = _asked(row, place, "loc", "locality")
    listed = triples_at(row, "loc_ids") if len(asked) == 1 else []
    for index, (question, answers) in enumerate(asked):
        found = nearby_fact(place, index, question, answers[0])
        if listed:
            subject, relation, thing = listed[0]
            label = fact.property_label if relation == fact.property else ""
            found = Fact(subject, "", relation, label, thing, answers[0])
        yield Probe("locality", question, answers, (found,), changed=row.get("loc_changed") is True)


def _asked(row: Row, place: RowPlace, name: str, kind: str) -> list[tuple[str, tuple[str, ...]]]:
    """Questions other than the edit's with their answers; ids and aliases in the row are those of a single question."""
    asked = questions_with_answers(place, kind, row.get(name), row.get(f"{name}_ans"))
    if len(asked) != 1:
        return asked
    ((question, answers),) = asked
    return [(question, tuple(dict.fromkeys((*answers, *texts_at(row, f"{name}_aliases")))))]


WIKIBIGEDIT = EditFormat(
    name="wikibigedit",
    needs=(("update",), ("ans",)),
    texts=_PUBLISHED[1:],
    used=(
        *_PUBLISHED,
        *_DETAILS,
        "case_id",
        "subject_id",
        "relation_id",
        "relation",
        "object_id",
        "old_object_ids",
        "old_ans",
        "aliases",
        "cloze",
        "loc_ids",
        "loc_aliases",
        "loc_changed",
        "as_of",
        "mhop_ids",
        "mhop_aliases",
    ),
    unusable={"projected": "it describes how the snapshots were made"},
    read_row=_read_row,
    declares_tag=True,
)
"""Source: WikiBigEdit_Pipeline/combine_qa.py of ExplainableML/WikiBigEdit."""
