"""WikiFactDiff as JSON Lines or Parquet: a row is a subject and relation with every object and what became of it.

Each object that is `new` gives a case; a row without one (an archived fact) teaches nothing and is counted. Prompts
are clozes with a blank at the end. Rows without prompts take them from a file ``triple_verbs`` beside theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgedit.benchmark.edit_files.contract import CaseDetails, EditFormat, ReadCase, Row, RowPlace
from kgedit.benchmark.edit_files.triple_verbs import with_prompts
from kgedit.benchmark.edit_files.values import (
    edited_fact,
    lacks,
    mapping_at,
    probes_of,
    text_at,
    texts_at,
    texts_of,
    without_blank,
)
from kgedit.records.cases import Axis, Case, Fact, Probe

_DECISIONS = {"learn": "new", "forget": "obsolete", "keep": "static"}
"""Decisions as the builder's own files call them -> as published."""


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    subject, relation = mapping_at(row, "subject"), mapping_at(row, "relation")
    prompt = without_blank(text_at(row, "update_prompt"))
    by_decision = _objects(row)
    new, obsolete = by_decision["new"], by_decision["obsolete"]
    if not new:
        place.left_out["rows without a new object: there is nothing to teach"] += 1
        return
    if lacks(place, {"update_prompt": prompt, "subject.label": text_at(subject, "label")}):
        return
    generalizations = tuple(without_blank(text) for text in texts_at(row, "generalization_prompts"))
    scenario = text_at(row, "scenario") or scenario_of(row)
    for index, thing in enumerate(new):
        fact = edited_fact(
            place.number,
            text_at(subject, "label"),
            text_at(thing, "label"),
            subject_id=text_at(subject, "id"),
            relation_id=text_at(relation, "id"),
            relation=text_at(relation, "label"),
            object_id=text_at(thing, "id") or f"object-{place.number}-{index}",
        )
        others = [other for other in (*new, *by_decision["static"]) if other is not thing]
        yield (
            Case(
                case_id=f"{fact.subject}:{fact.property}:{fact.object}",
                timestep=place.file,
                tag="update" if obsolete else "new",
                fact=fact,
                question=prompt,
                answer=fact.object_label,
                cloze=prompt,
                old_objects=tuple(
                    text_at(old, "id") or f"old-{place.number}-{number}" for number, old in enumerate(obsolete)
                ),
                old_answers=tuple(text_at(old, "label") for old in obsolete),
                probes=(
                    Probe("update", prompt, (fact.object_label,), (fact,)),
                    *probes_of("rephrase", generalizations, (fact.object_label,), fact),
                    *_neighbours(row, fact, "neighborhood", "locality"),
                    *_neighbours(row, fact, "random_neighborhood", "random_locality"),
                ),
            ),
            CaseDetails(
                scenario=scenario,
                kind=text_at(row, "kind") or None,
                popularity=_number(row.get("subject_popularity")),
                other_objects=tuple(text_at(other, "id") or text_at(other, "label") for other in others),
            ),
        )


def scenario_of(row: Row) -> str:
    """Which of the six scenarios a row is (WikiFactDiff, section 3)."""
    by_decision = _objects(row)
    new, obsolete, static = (len(by_decision[name]) for name in ("new", "obsolete", "static"))
    if row.get("subject_is_ph_new"):
        return "AddEntity"
    if (new, obsolete, static) == (1, 1, 0):
        return "ReplaceObject"
    if obsolete and not new and not static:
        return "Archive"
    if new and not obsolete:
        return "AddObject" if static else "AddRelation"
    return "Other"


def _objects(row: Row) -> dict[str, list[Row]]:
    """A row's labelled objects by decision."""
    found: dict[str, list[Row]] = {"new": [], "obsolete": [], "static": []}
    for thing in row.get("objects") or ():
        decision = text_at(thing, "decision")
        decision = _DECISIONS.get(decision, decision)
        if decision in found and text_at(thing, "label"):
            found[decision].append(thing)
    return found


def _neighbours(row: Row, edited: Fact, field: str, axis: Axis) -> Iterator[Probe]:
    """Every question about a neighbour; each accepts all objects that the neighbour has."""
    for number, neighbour in enumerate(row.get(field) or ()):
        subject, entries = mapping_at(neighbour, "subject"), neighbour.get("objects") or ()
        labels = texts_of([text_at(mapping_at(entry, "object"), "label") for entry in entries])
        relation, distance = text_at(neighbour, "relation"), _number(neighbour.get("dist"))
        asked = set()
        for index, entry in enumerate(entries):
            thing, question = mapping_at(entry, "object"), without_blank(text_at(entry, "prompt"))
            answer = text_at(thing, "label")
            if not question or not answer or question in asked:
                continue
            asked.add(question)
            own = f"{edited.subject}-{axis}-{number}-{index}"
            fact = Fact(
                text_at(subject, "id") or f"near-{own}",
                text_at(subject, "label"),
                relation or edited.property,
                relation or edited.property_label,
                text_at(thing, "id") or f"near-object-{own}",
                answer,
            )
            yield Probe(
                axis,
                question,
                tuple(dict.fromkeys((answer, *labels))),
                (fact,),
                cloze=question,
                similarity=None if distance is None else round(1 - distance, 6),
                popularity=_number(neighbour.get("popularity")),
            )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None  # noqa: PLR0124 - NaN


_ENTITY = ("id", "label")
_NEAR = ("neighborhood", "random_neighborhood")

WIKIFACTDIFF = EditFormat(
    name="wikifactdiff",
    needs=(("subject",), ("relation",), ("objects",)),
    texts=("update_prompt", "generalization_prompts"),
    used=(
        *(f"subject.{field}" for field in _ENTITY),
        *(f"relation.{field}" for field in _ENTITY),
        *(f"objects.{field}" for field in (*_ENTITY, "decision")),
        "update_prompt",
        "generalization_prompts",
        "subject_is_ph_new",
        "subject_popularity",
        "scenario",
        "kind",
        *(f"{near}.subject.{field}" for near in _NEAR for field in _ENTITY),
        *(f"{near}.objects.object.{field}" for near in _NEAR for field in _ENTITY),
        *(f"{near}.{field}" for near in _NEAR for field in ("relation", "objects.prompt", "dist", "popularity")),
    ),
    unusable={
        "subject.description": "no method reads it",
        "relation.description": "no method reads it",
        "objects.description": "no method reads it",
        "neighborhood.subject.description": "no method reads it",
        "neighborhood.objects.object.description": "no method reads it",
        "random_neighborhood.subject.description": "no method reads it",
        "random_neighborhood.objects.object.description": "no method reads it",
        "relation_is_temp_func": "it follows from the relation",
        "is_replace": "it follows from the objects",
        "in_replacement_set": "which rows to run is chosen when a run is",
        "projected": "it says how the snapshots were made",
    },
    read_row=_read_row,
    one_value=False,
    complete_rows=with_prompts,
)
"""Source: build/verbalize_wikifactdiff and clean_wikifactdiff.py of Orange-OpenSource/WikiFactDiff."""
