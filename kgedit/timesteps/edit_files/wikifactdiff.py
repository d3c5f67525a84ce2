"""WikiFactDiff as JSON Lines or Parquet: a row is a subject and relation with all objects and their classes.

Each `new` object gives a case. An archived fact is a case too, for runs that define a target for it; a row that is
neither has nothing to edit and is counted. Prompts are clozes with a blank at the end. Rows without prompts take them
from a file ``triple_verbs`` in the same folder.

A row without another answer gets alternatives to compare its answer with: objects of the relation, about as frequent. A
frequent object is likely whatever the question, so comparing it with a rare one is meaningless.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.records.cases import Axis, Case, Fact, Probe
from kgedit.timesteps.edit_files.contract import ARCHIVE, CaseDetails, EditFormat, ReadCase, Row, RowPlace
from kgedit.timesteps.edit_files.triple_verbs import with_prompts
from kgedit.timesteps.edit_files.values import (
    edited_fact,
    lacks,
    malformed_at,
    mapping_at,
    mappings_at,
    probes_of,
    text_at,
    texts_at,
    texts_of,
    without_blank,
)

SCORED = (ARCHIVE, "AddObject", "AddRelation", "AddEntity")
"""Scenarios with separate scores (kgedit.metrics.probability)."""

NO_ANSWER = "none"
"""Placeholder answer of an archived fact until a run defines its target."""

_DECISIONS = {"learn": "new", "forget": "obsolete", "keep": "static"}
"""Decisions in the files of the builder -> as published."""


def _read_row(row: Row, place: RowPlace) -> Iterator[ReadCase]:
    _count_malformed(row, place)
    subject, relation = mapping_at(row, "subject"), mapping_at(row, "relation")
    prompt = without_blank(text_at(row, "update_prompt"))
    by_decision = _objects(row)
    new, obsolete = by_decision["new"], by_decision["obsolete"]
    scenario = text_at(row, "scenario") or scenario_of(row)
    archived = scenario == ARCHIVE and not new
    if not new and not archived:
        place.left_out["rows without a new object: there is nothing to teach"] += 1
        return
    if lacks(place, {"update_prompt": prompt, "subject.label": text_at(subject, "label")}):
        return
    generalizations = tuple(without_blank(text) for text in texts_at(row, "generalization_prompts"))
    for index, thing in enumerate(new or ({"label": NO_ANSWER, "id": NO_ANSWER},)):
        fact = edited_fact(
            place.number,
            text_at(subject, "label"),
            text_at(thing, "label"),
            subject_id=text_at(subject, "id"),
            relation_id=text_at(relation, "id"),
            relation=text_at(relation, "label"),
            object_id=text_at(thing, "id") or f"object-{place.number}-{index}",
        )
        answers = _names(thing)
        compared = obsolete[0] if archived else thing
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
                    Probe("update", prompt, answers, (fact,)),
                    *probes_of("rephrase", generalizations, answers, fact),
                    *_neighbours(row, fact, "neighborhood", "locality"),
                    *_neighbours(row, fact, "random_neighborhood", "random_locality"),
                ),
                popularity=_number(row.get("subject_popularity")),
                scenario=scenario,
                static_answers=texts_of([text_at(other, "label") for other in by_decision["static"]]),
                alternatives=texts_of(mapping_at(row, "alternatives").get(text_at(compared, "label"))),
                in_replacement_set=_replacement(row),
            ),
            CaseDetails(
                scenario=scenario,
                kind=text_at(row, "kind") or None,
                popularity=_number(row.get("subject_popularity")),
                other_objects=tuple(text_at(other, "id") or text_at(other, "label") for other in others),
            ),
        )


def _replacement(row: Row) -> bool | None:
    """Whether a row belongs to WFD_repl; published files contain only whether it is a replacement."""
    said = row.get("in_replacement_set", row.get("is_replace"))
    return said if isinstance(said, bool) else None


def _count_malformed(row: Row, place: RowPlace) -> None:
    """Count the entries of a row's lists that are not JSON objects, which are not read."""
    if entries := malformed_at(row, "objects"):
        place.left_out["entries of objects that are no JSON object"] += entries
    for field in _NEAR:
        nested = sum(malformed_at(neighbour, "objects") for neighbour in mappings_at(row, field))
        if entries := malformed_at(row, field) + nested:
            place.left_out[f"entries of {field} that are no JSON object"] += entries


def with_prompts_and_alternatives(path: Path, rows: Sequence[Row]) -> Sequence[Row]:
    """Add missing prompts to rows, and alternatives to answers that have no other answer to be compared with.

    Raises:
        TimestepError: see with_prompts.
    """
    prompted = with_prompts(path, rows)
    pool = ObjectPool(said for row in prompted for said in _said(row))
    return [_with_alternatives(row, pool) for row in prompted]


def _said(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yield relation, subject and object of the facts in a row, of its updates and its nearest neighbours."""
    relation = text_at(mapping_at(row, "relation"), "id", "label")
    subject = text_at(mapping_at(row, "subject"), "id", "label")
    for things in _objects(row).values():
        for thing in things:
            yield relation, subject, text_at(thing, "label")
    for neighbour in mappings_at(row, "neighborhood"):
        near = text_at(mapping_at(neighbour, "subject"), "id", "label")
        for entry in mappings_at(neighbour, "objects"):
            if label := text_at(mapping_at(entry, "object"), "label"):
                yield relation, near, label


def _with_alternatives(row: Row, pool: ObjectPool) -> Row:
    if (text_at(row, "scenario") or scenario_of(row)) not in SCORED:
        return row
    by_decision = _objects(row)
    own = [text_at(thing, "label") for things in by_decision.values() for thing in things]
    relation = text_at(mapping_at(row, "relation"), "id", "label")
    compared = [text_at(thing, "label") for thing in by_decision["new"] or by_decision["obsolete"]]
    found = {label: list(pool.alternatives(relation, label, own=own)) for label in compared}
    return {**row, "alternatives": found}


def scenario_of(row: Row) -> str:
    """Scenario of a row, one of six (WikiFactDiff, section 3)."""
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
    for thing in mappings_at(row, "objects"):
        decision = text_at(thing, "decision")
        decision = _DECISIONS.get(decision, decision)
        if decision in found and text_at(thing, "label"):
            found[decision].append(thing)
    return found


def _neighbours(row: Row, edited: Fact, field: str, axis: Axis) -> Iterator[Probe]:
    """Yield every question about a neighbour; each accepts all objects of the neighbour."""
    for number, neighbour in enumerate(mappings_at(row, field)):
        subject, entries = mapping_at(neighbour, "subject"), mappings_at(neighbour, "objects")
        labels = texts_of([name for entry in entries for name in _names(mapping_at(entry, "object"))])
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


def _names(thing: Row) -> tuple[str, ...]:
    """An object's label and its aliases, which only kgedit's own files have."""
    return tuple(dict.fromkeys((text_at(thing, "label"), *texts_at(thing, "aliases"))))


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
        *(f"objects.{field}" for field in (*_ENTITY, "aliases", "decision")),
        "update_prompt",
        "generalization_prompts",
        "subject_is_ph_new",
        "subject_popularity",
        "is_replace",
        "in_replacement_set",
        "scenario",
        "kind",
        *(f"{near}.subject.{field}" for near in _NEAR for field in _ENTITY),
        *(f"{near}.objects.object.{field}" for near in _NEAR for field in (*_ENTITY, "aliases")),
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
        "projected": "it describes how the snapshots were made",
    },
    read_row=_read_row,
    one_value=False,
    complete_rows=with_prompts_and_alternatives,
)
"""Source: build/verbalize_wikifactdiff and clean_wikifactdiff.py of Orange-OpenSource/WikiFactDiff."""


ALTERNATIVES = 5
"""Number per answer."""


@dataclass(frozen=True, slots=True)
class _OfRelation:
    """Objects of one relation: how frequent each is, and all of the same frequency, in order."""

    frequency: Mapping[str, int]
    by_frequency: Mapping[int, Sequence[str]]
    frequencies: Sequence[int]


class ObjectPool:
    """Objects of each relation in a file.

    Args:
        said: Relation, subject and object of every fact, with the repetitions of the file.
    """

    def __init__(self, said: Iterable[tuple[str, str, str]]) -> None:
        subjects: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for relation, subject, thing in said:
            subjects[relation][thing].add(subject)
        self._relations = {relation: _of_relation(things) for relation, things in subjects.items()}

    def alternatives(
        self, relation: str, thing: str, *, own: Iterable[str], most: int = ALTERNATIVES
    ) -> tuple[str, ...]:
        """Draw objects of a relation that are about as frequent as a given one; the draw depends on its name.

        Args:
            thing: The given object; it need not be in the pool.
            own: Current and former values of the same subject, which are excluded.
            most: Number of objects; fewer are returned if the relation has no more.
        """
        pool = self._relations.get(relation)
        if pool is None:
            return ()
        left_out, found = {thing, *own}, list[str]()
        wanted = pool.frequency.get(thing, 1)
        draw = random.Random(f"alternatives {relation} {thing} {'|'.join(sorted(left_out))}")
        for frequency in _nearest_first(pool.frequencies, wanted):
            group = pool.by_frequency[frequency]
            drawn = draw.sample(group, min(len(group), most + len(left_out)))
            found += [other for other in drawn if other not in left_out]
            if len(found) >= most:
                break
        return tuple(found[:most])


def _of_relation(things: Mapping[str, set[str]]) -> _OfRelation:
    frequency = {thing: len(subjects) for thing, subjects in things.items()}
    groups: dict[int, list[str]] = defaultdict(list)
    for thing in sorted(frequency):
        groups[frequency[thing]].append(thing)
    return _OfRelation(frequency, groups, sorted(groups))


def _nearest_first(frequencies: Sequence[int], wanted: int) -> Iterable[int]:
    """Yield all frequencies, nearest first; of two equally near ones, the lower first."""
    above = bisect_left(frequencies, wanted)
    below = above - 1
    while below >= 0 or above < len(frequencies):
        if above == len(frequencies) or (below >= 0 and wanted - frequencies[below] <= frequencies[above] - wanted):
            yield frequencies[below]
            below -= 1
        else:
            yield frequencies[above]
            above += 1
