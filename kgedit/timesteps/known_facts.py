"""Facts of the older snapshot, which an up-to-date model of that day would know.

Methods that need known facts use those of the bundled sample world if the user has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from kgedit.records.cases import Fact, KnownFact
from kgedit.sample import SampleEntity, World, read_world
from kgedit.sample.generate import mentioned
from kgedit.store.window import Window
from kgedit.timesteps.engines import HOPS
from kgedit.timesteps.tables import CHANGED
from kgedit.wording.names import name_rules
from kgedit.wording.templates import ANY_CLASS, template_table


def choose_known_facts(window: Window, *, limit: int, hops: pa.Table | None = None) -> pa.Table:
    """Choose old answers, then locality facts and hops of chains, then other unchanged facts, with labels of that day.

    Args:
        window: Window with the tables worded_case (kgedit.timesteps.written.write_cases), and probe and static_near
            (kgedit.timesteps.locality.find_locality).
        hops: Columns subject, property and object: unchanged facts of chains; None means none.
        limit: Maximum number of facts; within each kind a hash of subject and property decides.

    Returns:
        Columns of a fact and object_aliases, in the order chosen.
    """
    return window.select(
        f"""
        WITH wanted AS (
            SELECT subject, property, old_objects[1] AS object, 0 AS turn FROM worded_case WHERE len(old_objects) = 1
            UNION ALL SELECT subject, property, object, 1 FROM probe WHERE basis <> '{CHANGED}'
            UNION ALL SELECT subject, property, object, 1 FROM hops
            UNION ALL SELECT subject, property, object, 2 FROM static_near
        ), once AS (
            SELECT subject, property, object, min(turn) AS turn FROM wanted GROUP BY ALL
        ), chosen AS (
            SELECT once.*, s.label AS subject_label, coalesce(p.label, once.property) AS property_label,
                   coalesce(o.label, n.label) AS object_label,
                   coalesce(o.aliases, n.aliases, []) AS object_aliases
            FROM once JOIN old_entities s ON s.id = once.subject LEFT JOIN old_entities o ON o.id = once.object
            -- An item that others were merged into may be missing from the older snapshot.
            LEFT JOIN new_entities n ON n.id = once.object AND n.id IN (SELECT target FROM new_redirects)
            LEFT JOIN old_entities p ON p.id = once.property
            WHERE s.label IS NOT NULL AND coalesce(o.label, n.label) IS NOT NULL
            ORDER BY turn, md5(once.subject || once.property), once.object LIMIT $limit
        )
        SELECT * EXCLUDE (turn) FROM chosen ORDER BY turn, subject, property, object
        """,
        {"limit": limit},
        hops=HOPS.empty_table() if hops is None else hops,
    )


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
