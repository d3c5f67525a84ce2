"""Checks the consistency of world.yaml before anything is written.

Labels beside ids are for the reader; they are compared with the entity's own labels here, so that a mistyped id is
noticed.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgedit.sample.values import datavalue, mentioned
from kgedit.sample.world import DatedValue, Reach, SampleEntity, SampleStatement, World, wrong


def check_world(world: World) -> None:
    """Check every id, label, value and range of snapshots.

    Raises:
        SourceError: with the line of the first error.
    """
    for entity in world.entities.values():
        written: dict[tuple[str, str, str], int] = {}
        for statement in entity.statements:
            _check_statement(statement, entity, world)
            distinguished_by = " | ".join(f"{each.property} {each.value.text}" for each in statement.qualifiers)
            key = (statement.property, statement.values[0].text, distinguished_by)
            if key in written:
                raise wrong(statement.line, f"{entity.id} {key[0]} {key[1]} is already on line {written[key]}")
            written[key] = statement.line
    for source, (target, first) in world.redirects.items():
        if source not in world.entities or target not in world.entities:
            raise wrong(1, f"the redirect {source} → {target} names an entity that is not in the world")
        if first in world.entities[source].reach:
            raise wrong(world.entities[source].line, f"{source} is still an entity when it is already a redirect")
    places_of = {f"case {case}": places for case, (_, places) in world.cases.items()} | world.scenarios
    for name, places in places_of.items():
        for place in places:
            _check_place(name, place, world)


def _check_statement(statement: SampleStatement, entity: SampleEntity, world: World) -> None:
    for property_id, value in _values(statement):
        described = world.entities.get(property_id)
        if described is None or described.datatype is None:
            raise wrong(value.line, f"{entity.id} uses {property_id}, which is not among the properties")
        if value.text in ("no value", "unknown value"):
            continue
        try:
            datavalue(value.text, described.datatype)
            mention = mentioned(value.text, described.datatype)
        except ValueError as error:
            raise wrong(value.line, f"{entity.id} {property_id}: {error}") from error
        if mention:
            seen = [number for number in (1, 2, 3) if number in value.reach and number in statement.reach]
            seen = [number for number in seen if number in entity.reach]
            _check_mention(*mention, value, seen=seen, world=world)


def _values(statement: SampleStatement) -> Iterator[tuple[str, DatedValue]]:
    """Each property of a statement with each of its values; a main value holds until its successor."""
    for place, value in enumerate(statement.values):
        later = statement.values[place + 1 :]
        last = later[0].reach.first - 1 if later else value.reach.last
        yield statement.property, DatedValue(value.text, value.line, Reach(value.reach.first, last))
    for qualifier in (*statement.qualifiers, *statement.references):
        yield qualifier.property, qualifier.value


def _check_mention(identifier: str, label: str, value: DatedValue, *, seen: list[int], world: World) -> None:
    named = world.entities.get(identifier)
    if named is None:
        raise wrong(value.line, f"{identifier} {label} is not in the world")
    known = {each.text for each in named.labels} or {"(no English label)"}
    if label not in known:
        raise wrong(value.line, f"{identifier} is called {' or '.join(sorted(known))}, not {label}")
    missing = [number for number in seen if number not in named.reach]
    if missing:
        raise wrong(value.line, f"{identifier} {label} is not in snapshot {missing[0]}, in which it is named")


def _check_place(name: str, place: str, world: World) -> None:
    subject, _, property_id = place.partition(":")
    entity = world.entities.get(subject)
    if entity is None:
        raise wrong(1, f"{name} points at {subject}, which is not in the world")
    if property_id and not any(statement.property == property_id for statement in entity.statements):
        raise wrong(entity.line, f"{name} points at {place}, but {subject} has no {property_id}")
