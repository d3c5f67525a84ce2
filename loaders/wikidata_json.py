"""Wikidata's JSON dump format: one entity a line, in the spelling of 2014 up to today's.

Source: https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html, licence of the content: CC0.
A block of lines becomes two Arrow tables and a count of what was left out, by reason; a bad statement costs only
itself, a bad line only that line.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa

from kgedit.store.schemas import CLAIMS, ENTITIES, Parsed
from kgedit.wikidata.ids import END_TIME, POINT_IN_TIME, SEPARATOR, START_TIME, TIME_QUALIFIERS
from kgedit.wikidata.times import UNKNOWN_TIME, Time, parse_time

SKIPPED_TYPES = ("lexeme", "mediainfo")


# gc=False: what a line decodes to holds no cycles, and millions of tracked objects would keep the collector busy.
class _Value(msgspec.Struct, gc=False, rename={"entity_type": "entity-type", "numeric_id": "numeric-id"}):
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


class _DataValue(msgspec.Struct, gc=False):
    type: str
    value: _Value | str


class _Snak(msgspec.Struct, gc=False):
    snaktype: str
    property: str
    datavalue: _DataValue | None = None
    datatype: str | None = None


class _Statement(msgspec.Struct, gc=False):
    mainsnak: _Snak
    id: str | None = None
    rank: Literal["preferred", "normal", "deprecated"] = "normal"
    qualifiers: dict[str, list[_Snak]] | list[Any] = {}


class _Term(msgspec.Struct, gc=False):
    value: str


class _Sitelink(msgspec.Struct, gc=False):
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
    version = "2"  # raised whenever the same dump would give other rows
    bad_lines = ("malformed JSON", "not an entity")
    bad_statements = ("malformed statement", "unknown snak type", "unknown value type", "unreadable value")
    notes = (
        "claims written as a list",
        "further values of a time qualifier",
        "qualifiers written as a list",
        "unreadable qualifier",
    )

    def __init__(self, options: Options) -> None:
        self._languages = options.languages
        fields = {f"language_{number}": language for number, language in enumerate(options.languages)}
        terms = _struct([(name, _Term | None, None) for name in fields], fields)
        aliases = _struct([(name, list[_Term] | None, None) for name in fields], fields)
        links = _struct([("wiki", _Sitelink | None, None)], {"wiki": options.wiki})
        entity: list[Any] = [
            ("id", str),
            ("type", str),
            ("datatype", str | None, None),
            ("lastrevid", Annotated[int, msgspec.Meta(le=2**63 - 1)] | None, None),
            ("labels", terms | list[Any], msgspec.field(default_factory=terms)),
            ("descriptions", terms | list[Any], msgspec.field(default_factory=terms)),
            ("aliases", aliases | list[Any], msgspec.field(default_factory=aliases)),
            ("sitelinks", links | list[Any], msgspec.field(default_factory=links)),
        ]
        claims: Any = ("claims", dict[str, list[_Statement]] | list[Any], msgspec.field(default_factory=dict))
        raw_claims: Any = ("claims", dict[str, list[msgspec.Raw]] | list[Any], msgspec.field(default_factory=dict))
        self._strict: Any = msgspec.json.Decoder(_struct([*entity, claims], {}))
        self._lenient: Any = msgspec.json.Decoder(_struct([*entity, raw_claims], {}))
        self._statement = msgspec.json.Decoder(_Statement)

    def parse(self, block: bytes) -> Parsed:
        """Parse a block of whole lines; array brackets, blank lines and trailing commas are no content."""
        with _collector_resting():
            return self._parse(block)

    def _parse(self, block: bytes) -> Parsed:
        claims: list[tuple[Any, ...]] = []
        entities: dict[str, tuple[Any, ...]] = {}
        counts: Counter[str] = Counter()
        for raw_line in block.splitlines():
            line = raw_line.strip(b" \t\r\n,")
            if line in (b"", b"[", b"]"):
                continue
            counts["lines"] += 1
            entity = self._decode(line, counts)
            if entity is None:
                continue
            statements = _statements_of(entity, counts)
            if entity.id in entities:
                counts["repeated entity"] += 1
                counts["statements"] += len(statements)
                counts["statement of a repeated entity"] += len(statements)
                continue
            entities[entity.id] = self._entity_row(entity)
            for statement in statements:
                _append_claim(claims, counts, entity.id, statement)
        return Parsed(_table(claims, CLAIMS), _table(list(entities.values()), ENTITIES), counts)

    def _decode(self, line: bytes, counts: Counter[str]) -> Any:
        """The entity in a line, or None, with the reason counted."""
        try:
            entity = self._decode_as_far_as_possible(line, counts)
        except msgspec.ValidationError:
            kind = _type_of(line)
            counts[kind if kind in SKIPPED_TYPES else "not an entity"] += 1
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            counts["malformed JSON"] += 1
            return None
        if entity.type not in ("item", "property"):
            counts[entity.type if entity.type in SKIPPED_TYPES else "not an entity"] += 1
            return None
        return entity

    def _decode_as_far_as_possible(self, line: bytes, counts: Counter[str]) -> Any:
        """Decode an entity; of which some statement is malformed, without that statement."""
        try:
            return self._strict.decode(line)
        except msgspec.ValidationError:
            entity = self._lenient.decode(line)
        if isinstance(entity.claims, dict):
            for property_id, statements in entity.claims.items():
                entity.claims[property_id] = list(self._statements(statements, counts))
        return entity

    def _statements(self, statements: list[msgspec.Raw], counts: Counter[str]) -> Any:
        for raw in statements:
            try:
                yield self._statement.decode(raw)
            except (msgspec.ValidationError, UnicodeDecodeError):
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
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


@contextmanager
def _collector_resting() -> Iterator[None]:
    """Rows hold no cycles, and looking for some among a million of them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _struct(fields: list[Any], names: dict[str, str]) -> Any:
    return msgspec.defstruct("_Part", fields, rename=names, gc=False)


def _statements_of(entity: Any, counts: Counter[str]) -> list[_Statement]:
    if isinstance(entity.claims, list):
        # PHP writes an empty map as []; anything in it could not be assigned to a property.
        counts["claims written as a list"] += bool(entity.claims)
        return []
    return list(chain.from_iterable(entity.claims.values()))


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


_Read = tuple[str, str | None, str | None, str | None, str | None, str | None, str | None, str | None]
"""kind of value (somevalue and novalue too), entity, literal, unit, language, precision, calendar, bounds."""

_NO_VALUE = ("somevalue", "novalue")
_NO_TIME = (None, None, None, None)


def _claim_row(subject: str, statement: _Statement, counts: Counter[str]) -> tuple[Any, ...]:
    snak = statement.mainsnak
    main = _read(snak)
    kind, entity, value, unit, language, precision, calendar, _bounds = main
    content = _text(snak.property, main)
    said = f"{subject}\x1e{statement.rank}\x1e{content}"
    qualifiers: list[str] = []
    separators: list[str] = []
    times: dict[str, tuple[Any, ...]] = {}
    if statement.qualifiers:
        said += _read_qualifiers(statement.qualifiers, qualifiers, separators, times, counts)
    version = int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "little", signed=True)
    statement_id = statement.id or f"{subject}${blake2b(content.encode(), digest_size=16).hexdigest()}"
    return (
        statement_id, subject, snak.property, statement.rank, kind if kind in _NO_VALUE else "value",
        snak.datatype or _datatype(kind, entity), entity, value, unit, language, precision, calendar,
        *times.get(START_TIME, _NO_TIME), *times.get(END_TIME, _NO_TIME), *times.get(POINT_IN_TIME, _NO_TIME),
        qualifiers, separators, version,
    )  # fmt: skip


def _text(property_id: str, read: _Read) -> str:
    """What a snak says, without its datatype: properties change theirs, and dumps before 2015 do not have it."""
    kind, entity, value, unit, language, precision, calendar, bounds = read
    return (
        f"{property_id}\x1f{kind}\x1f{entity or ''}\x1f{value or ''}\x1f{unit or ''}"
        f"\x1f{language or ''}\x1f{precision or ''}\x1f{calendar or ''}\x1f{bounds or ''}"
    )


def _datatype(kind: str, entity: str | None) -> str | None:
    """The datatype where a snak does not name it."""
    if entity is not None:
        return {"P": "wikibase-property", "L": "wikibase-lexeme"}.get(entity[0], "wikibase-item")
    return None if kind in _NO_VALUE else "globe-coordinate" if kind == "globecoordinate" else kind


def _read_qualifiers(
    by_property: dict[str, list[_Snak]] | list[Any],
    properties: list[str],
    separators: list[str],
    times: dict[str, tuple[Any, ...]],
    counts: Counter[str],
) -> str:
    """Fill the three collections; returns what the qualifiers say, whatever their order."""
    if isinstance(by_property, list):
        counts["qualifiers written as a list"] += 1
        return "\x1e" + "\x1e".join(sorted(map(str, by_property)))
    said = ""
    for property_id in sorted(by_property):
        snaks = by_property[property_id]
        read = sorted([(_text(property_id, value), value[1]) for value in _read_leniently(snaks, counts)], key=_first)
        said += "".join([f"\x1e{text}" for text, _ in read])
        properties.append(property_id)
        if property_id in TIME_QUALIFIERS:
            times[property_id] = _one_time(property_id, snaks, counts)
        elif property_id == SEPARATOR:
            separators += [entity for _, entity in read if entity]
    return said


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _read_leniently(snaks: list[_Snak], counts: Counter[str]) -> Iterator[_Read]:
    """Qualifiers; one that cannot be read still tells versions apart, and does not cost its statement."""
    for snak in snaks:
        try:
            yield _read(snak)
        except UnreadableError:
            counts["unreadable qualifier"] += 1
            yield ("unreadable", None, f"{snak.snaktype} {snak.datavalue}", None, None, None, None, None)


def _one_time(property_id: str, snaks: list[_Snak], counts: Counter[str]) -> tuple[Any, ...]:
    """The time that a qualifier gives. Of several the earliest start, the latest end or point; a known one first."""
    counts["further values of a time qualifier"] += len(snaks) > 1
    times = []
    for snak in snaks:
        # A time that cannot be read is counted with the other qualifiers.
        with suppress(UnreadableError):
            times.append(_time(snak))
    known = sorted([time for time in times if time is not None and time.first is not None], key=_earlier)
    if known:
        return known[0 if property_id == START_TIME else -1]
    return UNKNOWN_TIME if UNKNOWN_TIME in times else _NO_TIME


def _earlier(time: Time) -> tuple[Any, ...]:
    return time.first, time.until, time.text


def _read(snak: _Snak) -> _Read:
    """A snak in canonical form: spellings of the same value become equal."""
    if snak.snaktype in _NO_VALUE:
        return (snak.snaktype, None, None, None, None, None, None, None)
    if snak.snaktype != "value" or snak.datavalue is None:
        raise UnreadableError("unknown snak type")
    kind, value = snak.datavalue.type, snak.datavalue.value
    if isinstance(value, str):
        return (kind, None, value, None, None, None, None, None)
    reader = _READERS.get(kind)
    if reader is None:
        raise UnreadableError("unknown value type")
    return reader(value)


_PREFIXES = {"item": "Q", "property": "P", "lexeme": "L"}


def _read_entity(value: _Value) -> _Read:
    entity = value.id
    if not entity:
        if value.numeric_id is None or value.entity_type not in _PREFIXES:
            raise UnreadableError("unreadable value")
        entity = f"{_PREFIXES[value.entity_type]}{value.numeric_id}"
    return ("wikibase-entityid", entity, None, None, None, None, None, None)


def _read_quantity(value: _Value) -> _Read:
    if value.amount is None:
        raise UnreadableError("unreadable value")
    unit = None if value.unit in (None, "1", "") else _last_part(value.unit)
    bounds = f"{value.lowerBound}..{value.upperBound}" if value.upperBound else None
    return ("quantity", None, value.amount.removeprefix("+"), unit, None, None, None, bounds)


def _read_time(value: _Value) -> _Read:
    time = _parse(value)
    return ("time", None, time.text, None, None, str(time.precision), _last_part(value.calendarmodel), None)


def _read_text(value: _Value) -> _Read:
    if value.text is None:
        raise UnreadableError("unreadable value")
    return ("monolingualtext", None, value.text, None, value.language, None, None, None)


def _read_place(value: _Value) -> _Read:
    if value.latitude is None or value.longitude is None:
        raise UnreadableError("unreadable value")
    # Six digits: dumps of different years write the same fraction with 14 or with 17.
    place = f"{round(value.latitude, 6) + 0.0:.6f},{round(value.longitude, 6) + 0.0:.6f}"
    precision = None if value.precision is None else f"{value.precision:.6g}"
    return ("globecoordinate", None, place, _last_part(value.globe), None, precision, None, None)


_READERS: dict[str, Callable[[_Value], _Read]] = {
    "wikibase-entityid": _read_entity,
    "quantity": _read_quantity,
    "time": _read_time,
    "monolingualtext": _read_text,
    "globecoordinate": _read_place,
}


def _last_part(address: str | None) -> str | None:
    """The id at the end of an entity's address: "Q2" of "http://www.wikidata.org/entity/Q2"."""
    return address.rpartition("/")[2] or None if address else None


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
