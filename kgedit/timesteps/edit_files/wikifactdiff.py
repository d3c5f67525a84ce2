"""WikiFactDiff as JSON Lines or Parquet: a row is a subject and relation with all objects and their classes.

Each `new` object gives a case. An archived fact is a case too, for runs that define a target for it; a row that is
neither has nothing to edit and is counted. Prompts are clozes with a blank at the end.

Rows without prompts take them from ``triple_verbs``, triples in several wordings: on the hub Parquet files in a folder
next to that of the rows, in the builder ``verbalizations.jsonl``. A wording has a blank in place of the object, at its
end. Without the subject's label it is a template; the five that most triples of a relation share are its prompts, as in
the released builder.

A row without another answer gets alternatives to compare its answer with: objects of the relation, about as frequent. A
frequent object is likely whatever the question, so comparing it with a rare one is meaningless.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.errors import TimestepError
from kgedit.records.cases import Axis, Case, Fact, Probe
from kgedit.timesteps.edit_files.contract import (
    ARCHIVE,
    CaseDetails,
    EditFormat,
    NotRowsError,
    ReadCase,
    Row,
    RowPlace,
    edited_fact,
    lacks,
    malformed_at,
    mapping_at,
    mappings_at,
    probes_of,
    read_rows,
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
                kind=text_at(row, "kind") or None,
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
        TimestepError: see _with_prompts.
    """
    prompted = _with_prompts(path, rows)
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
                changed=neighbour.get("changed") is True,
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
        *(
            f"{near}.{field}"
            for near in _NEAR
            for field in ("relation", "objects.prompt", "dist", "popularity", "changed")
        ),
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


_MOST_TEMPLATES = 5
"""One cloze to edit with and four that test generalization (WikiFactDiff, section 5): the most frequent ones."""
_NAMES = ("triple_verbs", "triple_verbs_V2", "verbalizations", "chatgpt_verbalization_result")
"""Names of files and folders: the first two on the hub, the others in the builder; the paper's wordings come first."""

_ENDINGS = ("jsonl", "parquet")

_SLOT = "\0"
"""Placeholder of the subject; it occurs in no label."""


def _with_prompts(path: Path, rows: Sequence[Row]) -> Sequence[Row]:
    """Add missing prompts to rows and their neighbours.

    Args:
        path: File of the rows; wordings are searched in its folder and the parent folder.
        rows: Its rows.

    Raises:
        TimestepError: if prompts of edits are missing and there are no wordings, or they cannot be read.
    """
    lacking = [row for row in rows if not text_at(row, "update_prompt")]
    if not lacking and not any(_lacks_prompt(entry) for row in rows for _, _, entry in _neighbours_in(row)):
        return rows
    found = _find(path.absolute().parent)
    if not found and lacking:
        raise TimestepError(
            f"{path} has rows without update_prompt. Put WikiFactDiff's triple_verbs.jsonl or triple_verbs.parquet, or "
            "its folder triple_verbs, into the same folder or the one above: their prompts are taken from it."
        )
    templates = _templates(found) if found else {}
    return [_prompted(row, templates) for row in rows]


def _find(folder: Path) -> list[Path]:
    """Files of the first location with wordings, ordered by name."""
    for base in (folder, folder.parent):
        for name in _NAMES:
            beside = [base / f"{name}.{ending}" for ending in _ENDINGS]
            inside = [one for ending in _ENDINGS for one in sorted((base / name).glob(f"*.{ending}"))]
            if found := [one for one in beside if one.is_file()][:1] or inside:
                return found
    return []


def _prompted(row: Row, templates: Mapping[str, Sequence[str]]) -> Row:
    own = text_at(mapping_at(row, "relation"), "id")
    changed = dict(row)
    if not text_at(row, "update_prompt") and templates.get(own):
        label = text_at(mapping_at(row, "subject"), "label")
        wordings = [text.replace(_SLOT, label) for text in templates[own]]
        changed |= {"update_prompt": wordings[0], "generalization_prompts": wordings[1:]}
    for field in _NEAR:
        if any(_lacks_prompt(entry) for name, _, entry in _neighbours_in(row) if name == field):
            changed[field] = [_prompted_neighbour(one, own, templates) for one in mappings_at(row, field)]
    return changed


def _prompted_neighbour(neighbour: Row, relation: str, templates: Mapping[str, Sequence[str]]) -> Row:
    """A neighbour with a prompt for each of its objects, chosen by the fact among those of the relation."""
    subject, own = mapping_at(neighbour, "subject"), text_at(neighbour, "relation") or relation
    objects = []
    for entry in mappings_at(neighbour, "objects"):
        fact = f"{own} {text_at(subject, 'id', 'label')} {text_at(mapping_at(entry, 'object'), 'id', 'label')}"
        drawn = random.Random(f"triple_verbs {fact}").choice(templates.get(own) or [""])
        asked = drawn.replace(_SLOT, text_at(subject, "label"))
        objects.append({**entry, "prompt": asked} if _lacks_prompt(entry) else entry)
    return {**neighbour, "objects": objects}


def _neighbours_in(row: Row) -> Iterator[tuple[str, Row, Row]]:
    """Yield the field, the neighbour and each of its objects."""
    for field in _NEAR:
        for neighbour in mappings_at(row, field):
            yield from ((field, neighbour, entry) for entry in mappings_at(neighbour, "objects"))


def _lacks_prompt(entry: Row) -> bool:
    return not text_at(entry, "prompt")


def _templates(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Templates of each relation, most frequent first."""
    rows: list[object] = []
    for path in paths:
        try:
            rows += read_rows(path.read_bytes())
        except (OSError, NotRowsError) as error:
            raise TimestepError(f"{path} cannot be read as triple_verbs: {error}.") from error
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in (row for row in rows if isinstance(row, Mapping)):
        triple = mapping_at(row, "triple")
        subject = text_at(mapping_at(triple, "subject"), "label")
        relation = text_at(mapping_at(triple, "relation"), "id")
        for wording in mappings_at(row, "verbalizations"):
            template = _template(text_at(wording, "fill_in_the_blank"), subject)
            if relation and template:
                counts[relation][template] += 1
    # By count and then by text: a Counter's order depends on that of the file.
    return {
        relation: [text for text, _ in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_MOST_TEMPLATES]]
        for relation, found in counts.items()
    }


def _template(wording: str, subject: str) -> str:
    """The wording with a slot for the subject; "" if the subject is not in it."""
    if not subject:
        return ""
    named = re.search(re.escape(subject), wording, re.IGNORECASE)
    return wording[: named.start()] + _SLOT + wording[named.end() :] if named else ""
