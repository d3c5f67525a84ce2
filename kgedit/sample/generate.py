"""Writes the sample world as Wikidata dumps of three dates.

The form is that of Wikidata's JSON dumps: an array with one entity per line, ids in no order, GUIDs that survive
edits, and `lastrevid` that changes only with the entity. The same source gives the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from kgedit.files import replace_file
from kgedit.sample import DatedValue, Qualifier, Reach, SampleEntity, SampleStatement, World, read_world, wrong

# Written forms: ``Q84 London`` and ``P580 start time`` (the label is only checked), ``2021-12-08``, ``2021-12``,
# ``2021`` (written at the intended precision), ``1578 ±0.5 unit Q712226 square kilometre``, ``Deutschland@de``, ``52.5
# 13.4``, and plain text.


_TIME = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)(?: ±(\d+(?:\.\d+)?))?(?: unit (Q\d+) .+)?")
_MENTIONED = re.compile(r"([QP][1-9]\d*) (.+)")
_STRINGS = ("string", "external-id", "url", "commonsMedia")


def mentioned(text: str, datatype: str) -> tuple[str, str] | None:
    """Entity referred to by a value, as (id, label written beside it); None if the value is not an entity.

    Raises:
        ValueError: if the value does not have the form required by its datatype.
    """
    if datatype == "quantity":
        unit = re.search(r" unit (.+)", text)
        return mentioned(unit.group(1), "wikibase-item") if unit else None
    if datatype not in ("wikibase-item", "wikibase-property"):
        return None
    matched = _MENTIONED.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not an id followed by its label")
    return matched.group(1), matched.group(2)


def datavalue(text: str, datatype: str) -> dict[str, Any]:
    """The ``datavalue`` of a snak.

    Raises:
        ValueError: if the value does not have the form required by its datatype.
    """
    if datatype in _STRINGS:
        return {"value": text, "type": "string"}
    if datatype in ("wikibase-item", "wikibase-property"):
        return {"value": _entity_id(text, datatype), "type": "wikibase-entityid"}
    if datatype == "time":
        return {"value": _time(text), "type": "time"}
    if datatype == "quantity":
        return {"value": _quantity(text), "type": "quantity"}
    if datatype == "monolingualtext":
        words, _, language = text.rpartition("@")
        return {"value": {"text": words, "language": language}, "type": "monolingualtext"}
    if datatype == "globe-coordinate":
        return {"value": _place(text), "type": "globecoordinate"}
    raise ValueError(f"the sample world has no values of datatype '{datatype}'")


def _entity_id(text: str, datatype: str) -> dict[str, Any]:
    identifier = text.split(" ", maxsplit=1)[0]
    return {
        "entity-type": datatype.removeprefix("wikibase-"),
        "numeric-id": int(identifier[1:]),
        "id": identifier,
    }


def _time(text: str) -> dict[str, Any]:
    matched = _TIME.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not a date such as 2021, 2021-12 or 2021-12-08")
    year, month, day = matched.groups()
    return {
        "time": f"+{year}-{month or '00'}-{day or '00'}T00:00:00Z",
        "timezone": 0,
        "before": 0,
        "after": 0,
        "precision": 9 + (month is not None) + (day is not None),
        "calendarmodel": "http://www.wikidata.org/entity/Q1985727",
    }


def _quantity(text: str) -> dict[str, Any]:
    matched = _QUANTITY.fullmatch(text)
    if not matched:
        raise ValueError(f"'{text}' is not a quantity such as 83000 or 1578 ±0.5 unit Q712226 square kilometre")
    amount, bound, unit = matched.groups()
    value = {"amount": _signed(amount), "unit": f"http://www.wikidata.org/entity/{unit}" if unit else "1"}
    if bound is not None:
        value["upperBound"] = _signed(f"{float(amount) + float(bound):g}")
        value["lowerBound"] = _signed(f"{float(amount) - float(bound):g}")
    return value


def _signed(amount: str) -> str:
    return amount if amount.startswith("-") else f"+{amount}"


def _place(text: str) -> dict[str, Any]:
    latitude, longitude = (float(part) for part in text.split(" "))
    return {
        "latitude": latitude,
        "longitude": longitude,
        "altitude": None,
        "precision": 0.01,
        "globe": "http://www.wikidata.org/entity/Q2",
    }


# Labels beside ids are for the reader; they are compared with the entity's own labels here, so that a mistyped id is
# noticed.


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


SNAPSHOT_DATES = (date(2021, 1, 4), date(2023, 2, 27), date(2024, 6, 3))
"""Dates of the three snapshots, oldest first."""

_REVISIONS = (1_336_000_000, 1_842_000_000, 2_171_000_000)
"""Approximate revision numbers of Wikidata at the three dates."""

_GUIDS = uuid.UUID("6f1d2c2e-5b0a-4a57-9a5e-1f2f0d3c4b5a")


def write_world(folder: Path) -> list[Path]:
    """Write the three dumps and ``redirects.tsv``, with the same bytes each time.

    Args:
        folder: Target folder; created if necessary. Existing files of the same names are replaced.

    Returns:
        Paths of the dumps, oldest first, then ``redirects.tsv``.

    Raises:
        SourceError: with the line of world.yaml that is wrong.
    """
    world = read_world()
    check_world(world)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, lines in enumerate(dump_lines(world), start=1):
        text = "[\n" + ",\n".join(lines) + "\n]\n"
        name = f"{SNAPSHOT_DATES[number - 1]:%Y%m%d}.json.gz"
        written.append(replace_file(folder / name, _gzip(text.encode("utf-8"))))
    redirects = [
        f"{source}\t{target}\t{SNAPSHOT_DATES[first - 1]:%Y%m%d}\n"
        for source, (target, first) in sorted(world.redirects.items())
    ]
    written.append(replace_file(folder / "redirects.tsv", "".join(redirects).encode("utf-8")))
    return written


def dump_lines(world: World) -> list[list[str]]:
    """JSON of each entity per snapshot, oldest first, without the commas between lines."""
    snapshots: list[list[str]] = []
    seen: dict[str, tuple[str, int, str]] = {}
    for number in range(1, len(SNAPSHOT_DATES) + 1):
        lines = []
        present = [entity for entity in world.entities.values() if number in entity.reach]
        for entity in sorted(present, key=lambda entity: zlib.crc32(entity.id.encode())):
            body = _entity(entity, number, world)
            content = _json(body)
            before = seen.get(entity.id)
            if before is None or before[0] != content:
                before = (content, _revision(entity.id, number), _modified(entity.id, number))
                seen[entity.id] = before
            lines.append(_json(body | {"lastrevid": before[1], "modified": before[2]}))
        snapshots.append(lines)
    return snapshots


def _entity(entity: SampleEntity, number: int, world: World) -> dict[str, Any]:
    labels = dict(entity.other_labels)
    if (label := entity.label_in(number)) is not None:
        labels["en"] = label
    body: dict[str, Any] = {"type": "property" if entity.datatype else "item", "id": entity.id}
    if entity.datatype:
        body["datatype"] = entity.datatype
    body["labels"] = {language: _text(language, text) for language, text in sorted(labels.items())}
    body["descriptions"] = {"en": _text("en", entity.description)} if entity.description else {}
    aliases: dict[str, list[dict[str, str]]] = {}
    for language, alias in (*(("en", alias) for alias in entity.aliases), *entity.other_aliases):
        aliases.setdefault(language, []).append(_text(language, alias))
    body["aliases"] = aliases
    # Wikidata's dumps are written by PHP, in which an empty map is an empty list.
    body["claims"] = _claims(entity, number, world) or []
    if not entity.datatype:
        body["sitelinks"] = {"enwiki": _sitelink(entity.article)} if entity.article else {}
    return body


def _claims(entity: SampleEntity, number: int, world: World) -> dict[str, list[dict[str, Any]]]:
    claims: dict[str, list[dict[str, Any]]] = {}
    copies: Counter[tuple[str, str]] = Counter()
    for statement in entity.statements:
        first = (statement.property, statement.values[0].text)
        copies[first] += 1
        if number in statement.reach:
            guid = _guid(entity.id, *first, copies[first])
            claims.setdefault(statement.property, []).append(_claim(statement, guid, number, world))
    return claims


def _claim(statement: SampleStatement, guid: str, number: int, world: World) -> dict[str, Any]:
    claim: dict[str, Any] = {
        "mainsnak": _snak(statement.property, statement.value_in(number), world, hashed=False),
        "type": "statement",
    }
    qualifiers = _snaks([each for each in statement.qualifiers if number in each.value.reach], world)
    if qualifiers:
        claim["qualifiers"] = qualifiers
        claim["qualifiers-order"] = list(qualifiers)
    claim["id"] = guid
    claim["rank"] = statement.rank_in(number)
    snaks = _snaks([each for each in statement.references if number in each.value.reach], world)
    if snaks:
        claim["references"] = [{"hash": _hash(snaks), "snaks": snaks, "snaks-order": list(snaks)}]
    return claim


def _snaks(written: list[Qualifier], world: World) -> dict[str, list[dict[str, Any]]]:
    snaks: dict[str, list[dict[str, Any]]] = {}
    for each in written:
        snaks.setdefault(each.property, []).append(_snak(each.property, each.value.text, world, hashed=True))
    return snaks


def _snak(property_id: str, text: str, world: World, *, hashed: bool) -> dict[str, Any]:
    datatype = world.entities[property_id].datatype or ""
    snak: dict[str, Any] = {"snaktype": {"no value": "novalue", "unknown value": "somevalue"}.get(text, "value")}
    snak["property"] = property_id
    if snak["snaktype"] == "value":
        snak["datavalue"] = datavalue(text, datatype)
    snak["datatype"] = datatype
    return ({"hash": _hash(snak)} if hashed else {}) | snak


def _sitelink(title: str) -> dict[str, Any]:
    return {"site": "enwiki", "title": title, "badges": []}


def _text(language: str, text: str) -> dict[str, str]:
    return {"language": language, "value": text}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _hash(value: object) -> str:
    return uuid.uuid5(_GUIDS, _json(value)).hex + "00000000"


def _guid(subject: str, property_id: str, value: str, copy: int) -> str:
    return f"{subject}${str(uuid.uuid5(_GUIDS, f'{subject} {property_id} {value} {copy}')).upper()}"


def _revision(identifier: str, number: int) -> int:
    return _REVISIONS[number - 1] - zlib.crc32(identifier.encode()) % 1_000_000


def _modified(identifier: str, number: int) -> str:
    day = SNAPSHOT_DATES[number - 1] - timedelta(days=1 + zlib.crc32(identifier.encode()) % 200)
    return f"{day.isoformat()}T12:00:00Z"


def _gzip(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as archive:
        archive.write(content)
    return buffer.getvalue()
