"""Wikidata's JSON dump format: one entity a line, in the spelling of 2014 up to today's.

A block of lines becomes two Arrow tables and a count of what was left out, by reason; a bad statement costs only
itself, a bad line only that line.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa

from kgedit.store.lines import entity_texts
from kgedit.store.schemas import CLAIMS, ENTITIES, LoaderOptions, Parsed
from kgedit.wikidata.ids import SEPARATOR, START_TIME, TIME_QUALIFIERS
from kgedit.wikidata.labels import plain_line
from kgedit.wikidata.patterns import is_id_of, is_name, is_property_id, is_statement_id
from kgedit.wikidata.snaks import (
    NO_VALUE,
    CanonicalValue,
    Snak,
    UnreadableError,
    canonical_text,
    implied_datatype,
    read_snak,
    read_time,
)
from kgedit.wikidata.times import UNKNOWN_TIME, Time

SKIPPED_TYPES = ("lexeme", "mediainfo")


# gc=False: what a line decodes to holds no cycles, and millions of tracked objects would keep the collector busy.
class _Statement(msgspec.Struct, gc=False):
    mainsnak: Snak
    id: str | None = None
    rank: Literal["preferred", "normal", "deprecated"] = "normal"
    qualifiers: dict[str, list[Snak]] | list[Any] = {}


class _Term(msgspec.Struct, gc=False):
    value: str


class _Sitelink(msgspec.Struct, gc=False):
    title: str


class Parser:
    """Parses blocks of whole lines. Languages and wiki fix its decoder, so that all other labels are skipped unread."""

    source = "https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html"
    licence = "CC0-1.0"
    version = "3"
    bad_lines = ("malformed JSON", "nested too deeply", "not an entity", "unusable id")
    bad_statements = (
        "malformed statement",
        "unknown snak type",
        "unknown value type",
        "unreadable value",
        "unusable property id",
    )
    notes = (
        "claims written as a list",
        "further values of a time qualifier",
        "qualifiers written as a list",
        "unreadable qualifier",
        "unusable statement id",
    )

    def __init__(self, options: LoaderOptions) -> None:
        self._languages = options.languages
        fields = {f"language_{number}": language for number, language in enumerate(options.languages)}
        terms = _struct([(name, _Term | None, None) for name in fields], fields)
        aliases = _struct([(name, list[_Term] | None, None) for name in fields], fields)
        links = _struct([("wiki", _Sitelink | None, None)], {"wiki": options.wiki})
        entity: list[Any] = [
            ("id", str),
            ("type", str),
            ("datatype", str | None, None),
            ("lastrevid", Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None, None),
            ("labels", terms | list[Any], msgspec.field(default_factory=terms)),
            ("descriptions", terms | list[Any], msgspec.field(default_factory=terms)),
            ("aliases", aliases | list[Any], msgspec.field(default_factory=aliases)),
            ("sitelinks", links | list[Any], msgspec.field(default_factory=links)),
        ]
        claims: Any = ("claims", dict[str, list[_Statement]] | list[Any], msgspec.field(default_factory=dict))
        raw_claims: Any = ("claims", dict[str, list[msgspec.Raw]] | list[Any], msgspec.field(default_factory=dict))
        self._strict: Any = msgspec.json.Decoder(_struct([*entity, claims], {}))
        self._half_decoded = _struct([*entity, raw_claims], {})
        self._lenient: Any = msgspec.json.Decoder(self._half_decoded)
        self._statement = msgspec.json.Decoder(_Statement)

    def parse(self, block: bytes) -> Parsed:
        """Parse a block of whole lines; array brackets, blank lines and commas between entities are no content."""
        with _collector_resting():
            return self._parse(block)

    def _parse(self, block: bytes) -> Parsed:
        claims: list[tuple[Any, ...]] = []
        entities: dict[str, tuple[Any, ...]] = {}
        counts: Counter[str] = Counter()
        for text in entity_texts(block):
            counts["lines"] += 1
            entity = self._decode(text, counts)
            if entity is None:
                continue
            statements = self._statements_of(entity, counts)
            if entity.id in entities:
                counts["repeated entity"] += 1
                counts["statements"] += len(statements)
                counts["statement of a repeated entity"] += len(statements)
                continue
            entities[entity.id] = self._entity_row(entity)
            _append_claims(claims, counts, entity.id, statements)
        return Parsed(_table(claims, CLAIMS), _table(list(entities.values()), ENTITIES), counts)

    def _decode(self, text: bytes, counts: Counter[str]) -> Any:
        """The entity in a text, or None, with the reason counted."""
        try:
            entity = self._decode_as_far_as_possible(text)
        except msgspec.ValidationError:
            reason = _reason_to_skip(_type_of(text))
        except (msgspec.DecodeError, UnicodeDecodeError):
            reason = "malformed JSON"
        except RecursionError:
            reason = "nested too deeply"
        else:
            if entity.type not in ("item", "property"):
                reason = _reason_to_skip(entity.type)
            elif is_id_of(entity.type, entity.id):
                return entity
            else:
                reason = "unusable id"
        counts[reason] += 1
        return None

    def _decode_as_far_as_possible(self, text: bytes) -> Any:
        """Decode an entity; if something in it is malformed, its statements stay undecoded."""
        try:
            return self._strict.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._lenient.decode(text)

    def _statements_of(self, entity: Any, counts: Counter[str]) -> list[_Statement]:
        if isinstance(entity.claims, list):
            # PHP writes an empty map as []; anything in it could not be assigned to a property.
            counts["claims written as a list"] += bool(entity.claims)
            return []
        statements: Any = chain.from_iterable(entity.claims.values())
        return list(self._well_formed(statements, counts) if isinstance(entity, self._half_decoded) else statements)

    def _well_formed(self, statements: Iterator[msgspec.Raw], counts: Counter[str]) -> Iterator[_Statement]:
        for raw in statements:
            try:
                yield self._statement.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                counts["statements"] += 1
                counts["malformed statement"] += 1

    def _entity_row(self, entity: Any) -> tuple[Any, ...]:
        label, language = self._first(entity.labels)
        description, _ = self._first(entity.descriptions)
        aliases: list[str] = []
        if not isinstance(entity.aliases, list):
            for number in range(len(self._languages)):
                terms = getattr(entity.aliases, f"language_{number}")
                if terms:
                    aliases += [plain_line(term.value) for term in terms]
        link = None if isinstance(entity.sitelinks, list) else entity.sitelinks.wiki
        title = plain_line(link.title) if link else None
        datatype = entity.datatype
        if datatype is not None and not is_name(datatype):
            datatype = None
        return (
            entity.id, entity.type, label, language, description, _without_repetition(aliases),
            title or None, datatype, entity.lastrevid, None,
        )  # fmt: skip

    def _first(self, terms: Any) -> tuple[str | None, str | None]:
        """The first term that is not empty, and its language."""
        if not isinstance(terms, list):
            for number, language in enumerate(self._languages):
                term = getattr(terms, f"language_{number}")
                text = plain_line(term.value) if term is not None else ""
                if text:
                    return text, language
        return None, None


class _Type(msgspec.Struct):
    type: str


def _type_of(text: bytes) -> str:
    try:
        return msgspec.json.decode(text, type=_Type).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _reason_to_skip(entity_type: str) -> str:
    return entity_type if entity_type in SKIPPED_TYPES else "not an entity"


def _without_repetition(texts: list[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text] if texts else texts


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


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _append_claims(
    claims: list[tuple[Any, ...]], counts: Counter[str], subject: str, statements: list[_Statement]
) -> None:
    counts["statements"] += len(statements)
    for statement in statements:
        try:
            claims.append(_claim_row(subject, statement, counts))
        except UnreadableError as error:
            counts[error.args[0]] += 1
        except RecursionError:
            counts["malformed statement"] += 1


_NO_TIME = (None, None, None, None)
_NO_TIMES = _NO_TIME * 3


def _claim_row(subject: str, statement: _Statement, counts: Counter[str]) -> tuple[Any, ...]:
    snak = statement.mainsnak
    if not is_property_id(snak.property):
        raise UnreadableError("unusable property id")
    main = read_snak(snak)
    kind, entity, value, unit, language, precision, calendar, _bounds = main
    content = canonical_text(snak.property, main)
    said = f"{subject}\x1e{statement.rank}\x1e{content}"
    qualifiers: list[str] = []
    separators: list[str] = []
    times: tuple[Any, ...] = _NO_TIMES
    if statement.qualifiers:
        found: dict[str, tuple[Any, ...]] = {}
        said += _read_qualifiers(statement.qualifiers, qualifiers, separators, found, counts)
        if found:
            times = tuple(chain.from_iterable(found.get(name, _NO_TIME) for name in TIME_QUALIFIERS))
    version = int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "little", signed=True)
    statement_id = statement.id
    if statement_id is None or not is_statement_id(statement_id):
        counts["unusable statement id"] += statement_id is not None
        statement_id = f"{subject}${blake2b(content.encode(), digest_size=16).hexdigest()}"
    datatype = snak.datatype
    if datatype is None or not is_name(datatype):
        datatype = implied_datatype(kind, entity)
    return (
        statement_id, subject, snak.property, statement.rank, kind if kind in NO_VALUE else "value",
        datatype, entity, value, unit, language, precision, calendar,
        *times, qualifiers, separators, version,
    )  # fmt: skip


def _read_qualifiers(
    by_property: dict[str, list[Snak]] | list[Any],
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
        read = [(canonical_text(property_id, value), value[1]) for value in _read_leniently(snaks, counts)]
        if len(read) > 1:
            read.sort(key=_first)
        for text, _ in read:
            said += f"\x1e{text}"
        if not is_property_id(property_id):
            counts["unreadable qualifier"] += 1
            continue
        properties.append(property_id)
        if property_id in TIME_QUALIFIERS:
            times[property_id] = _one_time(property_id, snaks, counts)
        elif property_id == SEPARATOR:
            separators += [entity for _, entity in read if entity]
    return said


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _read_leniently(snaks: list[Snak], counts: Counter[str]) -> Iterator[CanonicalValue]:
    """Qualifiers; one that cannot be read still tells versions apart, and does not cost its statement."""
    for snak in snaks:
        try:
            yield read_snak(snak)
        except UnreadableError:
            counts["unreadable qualifier"] += 1
            yield ("unreadable", None, f"{snak.snaktype} {snak.datavalue}", None, None, None, None, None)


def _one_time(property_id: str, snaks: list[Snak], counts: Counter[str]) -> tuple[Any, ...]:
    """The time that a qualifier gives. Of several the earliest start, the latest end or point; a known one first."""
    counts["further values of a time qualifier"] += len(snaks) > 1
    times = []
    for snak in snaks:
        # A time that cannot be read is counted with the other qualifiers.
        with suppress(UnreadableError):
            times.append(read_time(snak))
    known = sorted([time for time in times if time is not None and time.first is not None], key=_earlier)
    if known:
        return known[0 if property_id == START_TIME else -1]
    return UNKNOWN_TIME if UNKNOWN_TIME in times else _NO_TIME


def _earlier(time: Time) -> tuple[Any, ...]:
    return time.first, time.until, time.text
