"""Wikidata's JSON dump format: one entity a line, in the spelling of 2014 up to today's.

Source: https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html, licence of the content: CC0.
A block of lines becomes two Arrow tables and a count of what was left out, by reason; a bad statement costs only
itself, a bad line only that line.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from kgedit.store.schemas import CLAIMS, ENTITIES, Parsed
from kgedit.wikidata.ids import END_TIME, POINT_IN_TIME, SEPARATOR, START_TIME, TIME_QUALIFIERS
from kgedit.wikidata.times import UNKNOWN_TIME, Time, parse_time

SKIPPED_TYPES = ("lexeme", "mediainfo", "form", "sense")


class _Value(msgspec.Struct, rename={"entity_type": "entity-type", "numeric_id": "numeric-id"}):
    id: str | None = None
    entity_type: str | None = None
    numeric_id: int | None = None
    amount: str | None = None
    unit: str | None = None
    upperBound: str | None = None  # noqa: N815 - the dump's spelling
    lowerBound: str | None = None  # noqa: N815
    time: str | None = None
    precision: float | None = None
    calendarmodel: str | None = None
    text: str | None = None
    language: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    globe: str | None = None


class _DataValue(msgspec.Struct):
    type: str
    value: _Value | str


class _Snak(msgspec.Struct):
    snaktype: str
    property: str
    datavalue: _DataValue | None = None
    datatype: str | None = None


class _Statement(msgspec.Struct):
    mainsnak: _Snak
    id: str | None = None
    rank: str = "normal"
    qualifiers: dict[str, list[_Snak]] | list[Any] = {}


class _Term(msgspec.Struct):
    value: str


class _Sitelink(msgspec.Struct):
    title: str


class UnreadableError(ValueError):
    """A snak whose value cannot be read; the first argument is the reason to count."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to read of each entity.

    Attributes:
        languages: Label languages, most wanted first.
        wiki: Site whose article title is kept ("enwiki").
    """

    languages: tuple[str, ...] = ("en", "mul")
    wiki: str = "enwiki"


class Parser:
    """Parses blocks of whole lines. Languages and wiki fix its decoder, so that all other labels are skipped unread."""

    options = Options
    version = "1"  # raised whenever the same dump would give other rows
    bad_lines = ("malformed JSON", "not an entity")
    bad_statements = ("malformed statement", "unknown snak type", "unknown value type", "unreadable value")

    def __init__(self, options: Options) -> None:
        self._languages = options.languages
        fields = {f"language_{number}": language for number, language in enumerate(options.languages)}
        terms = msgspec.defstruct("_Terms", [(name, _Term | None, None) for name in fields], rename=fields)
        aliases = msgspec.defstruct("_Aliases", [(name, list[_Term] | None, None) for name in fields], rename=fields)
        links = msgspec.defstruct("_Links", [("wiki", _Sitelink | None, None)], rename={"wiki": options.wiki})
        entity: list[Any] = [
            ("id", str),
            ("type", str),
            ("datatype", str | None, None),
            ("lastrevid", int | None, None),
            ("labels", terms | list[Any], msgspec.field(default_factory=terms)),
            ("descriptions", terms | list[Any], msgspec.field(default_factory=terms)),
            ("aliases", aliases | list[Any], msgspec.field(default_factory=aliases)),
            ("sitelinks", links | list[Any], msgspec.field(default_factory=links)),
        ]
        claims: Any = ("claims", dict[str, list[_Statement]] | list[Any], msgspec.field(default_factory=dict))
        raw_claims: Any = ("claims", dict[str, list[msgspec.Raw]] | list[Any], msgspec.field(default_factory=dict))
        self._strict: Any = msgspec.json.Decoder(msgspec.defstruct("_Entity", [*entity, claims]))
        self._lenient: Any = msgspec.json.Decoder(msgspec.defstruct("_RawEntity", [*entity, raw_claims]))
        self._statement = msgspec.json.Decoder(_Statement)

    def parse(self, block: bytes) -> Parsed:
        """Parse a block of whole lines; array brackets, blank lines and trailing commas are no content."""
        claims: list[tuple[Any, ...]] = []
        entities: list[tuple[Any, ...]] = []
        counts: Counter[str] = Counter()
        for raw_line in block.splitlines():
            line = raw_line.strip(b" \t\r\n,")
            if line in (b"", b"[", b"]"):
                continue
            counts["lines"] += 1
            entity = self._decode(line, counts)
            if entity is None:
                continue
            entities.append(self._entity_row(entity))
            if isinstance(entity.claims, list):
                counts["claims written as a list"] += 1
                continue
            for statements in entity.claims.values():
                for statement in statements:
                    _append_claim(claims, counts, entity.id, statement)
        return Parsed(_table(claims, CLAIMS), _table(entities, ENTITIES), counts)

    def _decode(self, line: bytes, counts: Counter[str]) -> Any:
        try:
            entity = self._strict.decode(line)
        except msgspec.ValidationError:
            entity = self._decode_leniently(line, counts)
        except msgspec.DecodeError:
            counts["malformed JSON"] += 1
            return None
        if entity is None:
            return None
        if entity.type in SKIPPED_TYPES:
            counts[entity.type] += 1
            return None
        if entity.type not in ("item", "property"):
            counts["not an entity"] += 1
            return None
        return entity

    def _decode_leniently(self, line: bytes, counts: Counter[str]) -> Any:
        """Decode an entity of which some statement is malformed, without that statement."""
        try:
            entity = self._lenient.decode(line)
        except msgspec.ValidationError:
            kind = _type_of(line)
            counts[kind if kind in SKIPPED_TYPES else "not an entity"] += 1
            return None
        if isinstance(entity.claims, dict):
            for property_id, statements in entity.claims.items():
                entity.claims[property_id] = list(self._statements(statements, counts))
        return entity

    def _statements(self, statements: list[msgspec.Raw], counts: Counter[str]) -> Any:
        for raw in statements:
            try:
                yield self._statement.decode(raw)
            except msgspec.ValidationError:
                counts["statements"] += 1
                counts["malformed statement"] += 1

    def _entity_row(self, entity: Any) -> tuple[Any, ...]:
        label, language = self._first(entity.labels)
        description, _ = self._first(entity.descriptions)
        aliases: list[str] = []
        if not isinstance(entity.aliases, list):
            for number in range(len(self._languages)):
                aliases += [term.value for term in getattr(entity.aliases, f"language_{number}") or ()]
        link = None if isinstance(entity.sitelinks, list) else entity.sitelinks.wiki
        title = link.title if link else None
        return (
            entity.id, entity.type, label, language, description, list(dict.fromkeys(aliases)),
            title, entity.datatype, entity.lastrevid, None,
        )  # fmt: skip

    def _first(self, terms: Any) -> tuple[str | None, str | None]:
        if not isinstance(terms, list):
            for number, language in enumerate(self._languages):
                term = getattr(terms, f"language_{number}")
                if term is not None:
                    return term.value, language
        return None, None


class _Type(msgspec.Struct):
    type: str


def _type_of(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Type).type
    except msgspec.DecodeError:
        return ""


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _append_claim(claims: list[tuple[Any, ...]], counts: Counter[str], subject: str, statement: _Statement) -> None:
    counts["statements"] += 1
    try:
        claims.append(_claim_row(subject, statement, counts))
    except UnreadableError as error:
        counts[error.args[0]] += 1


_NO_TIME = (None, None, None, None)


def _claim_row(subject: str, statement: _Statement, counts: Counter[str]) -> tuple[Any, ...]:
    snak = statement.mainsnak
    main = _read(snak)
    qualifiers: list[str] = []
    separators: list[str] = []
    times: dict[str, Time] = {}
    said = [statement.rank, snak.property, "\x1f".join(map(str, main))]
    if statement.qualifiers and isinstance(statement.qualifiers, dict):
        for property_id in sorted(statement.qualifiers):
            qualifiers.append(property_id)
            read = [_read_qualifier(qualifier, counts) for qualifier in statement.qualifiers[property_id]]
            said += sorted(f"{property_id}\x1f" + "\x1f".join(map(str, value)) for value in read)
            if property_id in TIME_QUALIFIERS:
                times.update(_first_time(property_id, statement.qualifiers[property_id], counts))
            elif property_id == SEPARATOR:
                separators += [value[2] for value in read if value[2]]
    key = "\x1e".join(said).encode()
    version = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little", signed=True)
    statement_id = statement.id or f"{subject}${hashlib.blake2b(key, digest_size=16).hexdigest()}"
    kind, datatype, entity, value, unit, language, precision, calendar, _bounds = main
    return (
        statement_id, subject, snak.property, statement.rank, kind, datatype, entity, value, unit, language, precision,
        calendar, *times.get(START_TIME, _NO_TIME), *times.get(END_TIME, _NO_TIME), *times.get(POINT_IN_TIME, _NO_TIME),
        qualifiers, sorted(separators), version,
    )  # fmt: skip


_Read = tuple[str, str | None, str | None, str | None, str | None, str | None, str | None, str | None, str | None]
"""snak type, datatype, entity, literal, unit, language, precision, calendar, bounds."""

_PREFIXES = {"item": "Q", "property": "P", "lexeme": "L"}


def _read_qualifier(snak: _Snak, counts: Counter[str]) -> _Read:
    """A qualifier that cannot be read still tells versions apart, and does not cost its statement."""
    try:
        return _read(snak)
    except UnreadableError:
        counts["unreadable qualifier"] += 1
        return ("value", snak.datatype, None, str(snak.datavalue), None, None, None, None, None)


def _first_time(property_id: str, snaks: list[_Snak], counts: Counter[str]) -> dict[str, Time]:
    """The time that a qualifier gives, by its property; of several values the first, and the rest are counted."""
    counts["further values of a time qualifier"] += len(snaks) > 1
    try:
        time = _time(snaks[0]) if snaks else None
    except UnreadableError:
        return {}
    return {property_id: time} if time is not None else {}


def _read(snak: _Snak) -> _Read:  # noqa: PLR0911 - one return per kind of value
    """A snak in canonical form: spellings of the same value become equal."""
    if snak.snaktype in ("somevalue", "novalue"):
        return (snak.snaktype, snak.datatype, None, None, None, None, None, None, None)
    if snak.snaktype != "value" or snak.datavalue is None:
        raise UnreadableError("unknown snak type")
    kind, value = snak.datavalue.type, snak.datavalue.value
    datatype = snak.datatype or kind
    if isinstance(value, str):
        return ("value", datatype, None, value, None, None, None, None, None)
    if kind == "wikibase-entityid":
        entity = value.id or f"{_PREFIXES.get(value.entity_type or '', '?')}{value.numeric_id}"
        if entity[0] == "?":
            raise UnreadableError("unknown value type")
        return ("value", datatype, entity, None, None, None, None, None, None)
    if kind == "quantity" and value.amount is not None:
        unit = None if value.unit in (None, "1", "") else str(value.unit).rpartition("/")[2]
        amount = value.amount.removeprefix("+")
        bounds = f"{value.lowerBound}..{value.upperBound}" if value.upperBound else None
        return ("value", datatype, None, amount, unit, None, None, None, bounds)
    if kind == "time" and value.time is not None:
        time = _parse(value)
        calendar = str(value.calendarmodel or "").rpartition("/")[2] or None
        return ("value", datatype, None, time.text, None, None, str(time.precision), calendar, None)
    if kind == "monolingualtext" and value.text is not None:
        return ("value", datatype, None, value.text, None, value.language, None, None, None)
    if kind == "globecoordinate" and value.latitude is not None:
        globe = str(value.globe or "").rpartition("/")[2] or None
        place = f"{value.latitude:.6f},{value.longitude or 0.0:.6f}"
        return ("value", datatype, None, place, globe, None, str(value.precision), None, None)
    raise UnreadableError("unknown value type")


def _time(snak: _Snak) -> Time | None:
    """A qualifier's time; None where Wikidata says that there is none (novalue)."""
    if snak.snaktype == "somevalue":
        return UNKNOWN_TIME
    if snak.snaktype == "value" and snak.datavalue is not None and isinstance(snak.datavalue.value, _Value):
        return _parse(snak.datavalue.value)
    return None


def _parse(value: _Value) -> Time:
    try:
        return parse_time(value.time or "", int(value.precision if value.precision is not None else -1))
    except ValueError as error:
        raise UnreadableError("unreadable value") from error
