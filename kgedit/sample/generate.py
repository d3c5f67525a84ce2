"""Writes the sample world as Wikidata dumps of three dates.

The form is that of Wikidata's JSON dumps: an array with one entity per line, ids in no order, GUIDs that survive
edits, and `lastrevid` that changes only with the entity. The same source gives the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import uuid
import zlib
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from kgedit.files import replace_file
from kgedit.sample.check import check_world
from kgedit.sample.values import datavalue
from kgedit.sample.world import Qualifier, SampleEntity, SampleStatement, World, read_world

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
