"""Facts of the bundled sample world as text, for methods that need known facts if the user has none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kgedit.records.cases import Fact, KnownFact
from kgedit.sample.generate import mentioned
from kgedit.sample.world import SampleEntity, World, read_world
from kgedit.wording.names import name_rules
from kgedit.wording.templates import ANY_CLASS, template_table

_SNAPSHOT = 1
"""Number of the sample's first snapshot, as a timestep's known facts are those of the older one."""
_LABELLED_BY_ITEM = "wikibase-item"


@cache
def sample_facts() -> tuple[KnownFact, ...]:
    """Facts about items in the sample's first snapshot whose properties have a template, in the order of the file."""
    world = read_world()
    templates = {row["property"]: row for row in template_table().to_pylist() if row["subject_class"] == ANY_CLASS}
    facts = [
        KnownFact(
            fact,
            question=_filled_in(templates[fact.property]["question"], fact.subject_label),
            rephrase=_filled_in(templates[fact.property]["rephrase"], fact.subject_label),
            cloze=_filled_in(templates[fact.property]["cloze"], fact.subject_label),
            answer=fact.object_label,
        )
        for entity in world.entities.values()
        if entity.datatype is None
        for fact in _facts(world, entity)
        if fact.property in templates
    ]
    return tuple(dict.fromkeys(facts))


def _filled_in(wording: str, label: str) -> str:
    text = wording.replace("{subject}", name_rules().in_sentence(label))
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _facts(world: World, entity: SampleEntity) -> Iterator[Fact]:
    label = entity.label_in(_SNAPSHOT)
    for statement in entity.statements:
        relation = world.entities.get(statement.property)
        if label is None or relation is None or _SNAPSHOT not in statement.reach:
            continue
        text = statement.value_in(_SNAPSHOT)
        if relation.datatype != _LABELLED_BY_ITEM or statement.rank_in(_SNAPSHOT) == "deprecated" or text[0] != "Q":
            continue
        value = mentioned(text, relation.datatype)
        if value:
            relation_label = relation.label_in(_SNAPSHOT) or relation.id
            yield Fact(entity.id, label, relation.id, relation_label, *value)
