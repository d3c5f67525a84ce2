"""Wikidata's JSON dump format: one entity per line, in all spellings from 2014 to today.

A block of lines becomes two Arrow tables and counts of what was left out, by reason. A bad statement or line does not
affect the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

import msgspec

from kgedit.store.compiled import find_compiled_parser
from kgedit.store.framing import JSON_LINES, entity_texts
from kgedit.store.rows import (
    BAD_STATEMENTS,
    STATEMENT_NOTES,
    Statement,
    append_claims,
    collector_resting,
    table,
    without_repetition,
)
from kgedit.store.schemas import CLAIMS, ENTITIES, LoaderOptions, Parsed
from kgedit.wikidata.ids import is_id_of, is_name, plain_line

SKIPPED_TYPES = ("lexeme", "mediainfo")


# gc=False: decoded lines contain no cycles, and tracking millions of objects would keep the collector busy.
class _Term(msgspec.Struct, gc=False):
    value: str


class _Sitelink(msgspec.Struct, gc=False):
    title: str


class JsonParser:
    """Parses blocks of whole lines. Its decoder is built for the chosen languages and wiki, and skips other labels."""

    source = "https://doc.wikimedia.org/Wikibase/master/php/docs_topics_json.html"
    licence = "CC0-1.0"
    version = "3"
    bad_lines = ("malformed JSON", "nested too deeply", "not an entity", "unusable id")
    bad_statements = BAD_STATEMENTS
    notes = ("claims written as a list", *STATEMENT_NOTES)
    framing = JSON_LINES
    lacks = ()
    datatypes_by_property = False

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
            # A larger number would not fit into the column.
            ("lastrevid", Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None, None),
            ("labels", terms | list[Any], msgspec.field(default_factory=terms)),
            ("descriptions", terms | list[Any], msgspec.field(default_factory=terms)),
            ("aliases", aliases | list[Any], msgspec.field(default_factory=aliases)),
            ("sitelinks", links | list[Any], msgspec.field(default_factory=links)),
        ]
        claims: Any = ("claims", dict[str, list[Statement]] | list[Any], msgspec.field(default_factory=dict))
        raw_claims: Any = ("claims", dict[str, list[msgspec.Raw]] | list[Any], msgspec.field(default_factory=dict))
        self._strict: Any = msgspec.json.Decoder(_struct([*entity, claims], {}))
        self._half_decoded = _struct([*entity, raw_claims], {})
        self._lenient: Any = msgspec.json.Decoder(self._half_decoded)
        self._statement = msgspec.json.Decoder(Statement)
        self._compiled = find_compiled_parser(options, self.version, self.parse_in_python)

    @property
    def parses_in_threads(self) -> bool:
        """Whether the compiled parser is used, which does not hold Python's lock."""
        return self._compiled is not None

    def parse(self, block: bytes) -> Parsed:
        """Parse a block of whole lines; ignores array brackets, blank lines and commas between entities."""
        return self.parse_in_python(block) if self._compiled is None else self._compiled.parse(block)

    def parse_in_python(self, block: bytes) -> Parsed:
        """Same as `parse`, without the compiled parser."""
        with collector_resting():
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
            append_claims(claims, counts, entity.id, statements)
        return Parsed(table(claims, CLAIMS), table(list(entities.values()), ENTITIES), counts)

    def _decode(self, text: bytes, counts: Counter[str]) -> Any:
        """Decode the entity in a text; None if that fails, with the reason counted."""
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
        """Decode an entity; if part of it is malformed, its statements stay undecoded."""
        try:
            return self._strict.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._lenient.decode(text)

    def _statements_of(self, entity: Any, counts: Counter[str]) -> list[Statement]:
        if isinstance(entity.claims, list):
            # PHP writes an empty map as []; its elements could not be assigned to a property.
            counts["claims written as a list"] += bool(entity.claims)
            return []
        statements: Any = chain.from_iterable(entity.claims.values())
        return list(self._well_formed(statements, counts) if isinstance(entity, self._half_decoded) else statements)

    def _well_formed(self, statements: Iterator[msgspec.Raw], counts: Counter[str]) -> Iterator[Statement]:
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
            entity.id, entity.type, label, language, description, without_repetition(aliases),
            title or None, datatype, entity.lastrevid, None,
        )  # fmt: skip

    def _first(self, terms: Any) -> tuple[str | None, str | None]:
        """The first non-empty term and its language."""
        if not isinstance(terms, list):
            for number, language in enumerate(self._languages):
                term = getattr(terms, f"language_{number}")
                text = plain_line(term.value) if term is not None else ""
                if text:
                    return text, language
        return None, None


class _Type(msgspec.Struct):
    type: str


_TYPES = msgspec.json.Decoder(_Type)
"""Made here and not in a thread that parses: see kgedit.llm.remote.requests."""


def _type_of(text: bytes) -> str:
    try:
        return _TYPES.decode(text).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _reason_to_skip(entity_type: str) -> str:
    return entity_type if entity_type in SKIPPED_TYPES else "not an entity"


def _struct(fields: list[Any], names: dict[str, str]) -> Any:
    return msgspec.defstruct("_Part", fields, rename=names, gc=False)
