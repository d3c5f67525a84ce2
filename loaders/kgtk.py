"""Edge files of KGTK: tab-separated node1, label, node2, with an id, and qualifiers whose node1 is an edge's id.

Edges of an entity must be contiguous, as `kgtk sort` leaves them. The qualifiers of an edge then follow its entity,
because the edge's id begins with the entity's id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

from kgedit.store.framing import cut_at, without_mark
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
from kgedit.wikidata.ids import is_entity_id, is_id_of, is_property_id, plain_line, site_address
from kgedit.wikidata.snaks import DataValue, Snak, Value

NO_EDGE = "malformed edge"
OTHER = "edge of no Wikidata entity"
NO_QUALIFIED = "qualifier of no statement"
NO_LANGUAGE = "name or description without language"

_COLUMNS = ("node1", "label", "node2")
_WIKIDATA = "http://www.wikidata.org/entity/"
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'@([A-Za-z][A-Za-z0-9-]*)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_TIME = re.compile(r"\^([+-]?\d+-\d\d-\d\dT[0-9:]+Z?)/(\d+)")
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:\[([^,\]]+),([^\]]+)\])?(Q\d+)?")
_PLACE = re.compile(r"@([+-]?\d+(?:\.\d+)?(?:[eE]-?\d+)?)/([+-]?\d+(?:\.\d+)?(?:[eE]-?\d+)?)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_WORDS = ("label", "description", "alias")
_NO_LINE = "has {longest:,} bytes of one entity's edges. Is it sorted by node1?"


def _columns_of(header: bytes) -> dict[str, int]:
    names = header.rstrip(b"\r\n").decode("utf-8", "replace").split("\t")
    return {name: place for place, name in enumerate(names)}


class Edges:
    """Lines grouped by entity; each block begins with the header."""

    def blocks(self, chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
        """Blocks of whole entities."""
        first = without_mark(bytes(next(chunks, b"")))
        while b"\n" not in first and (more := next(chunks, b"")):
            first += more
        heading, _, rest = first.partition(b"\n")
        place = _columns_of(heading).get("node1", 0)

        def cut(text: bytes) -> int:
            return _before_the_last_entity(text, place)

        for block in cut_at(chain([rest], chunks), path, cut, _NO_LINE):
            yield heading.rstrip(b"\r") + b"\n" + block

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The header and the edges of the first `count` entities."""
        heading, _, rest = block.partition(b"\n")
        place, taken, size, last = _columns_of(heading).get("node1", 0), 0, 0, b""
        for line in rest.splitlines(keepends=True):
            key = _key(line, place)
            taken += key != last
            if taken > count:
                return heading + b"\n" + rest[:size], count
            last, size = key, size + len(line)
        return block, taken


def _before_the_last_entity(text: bytes, place: int) -> int:
    # The last entity may continue in the next chunk, and a line that is cut belongs to it.
    end = text.rfind(b"\n") + 1
    last = None
    while end:
        start = text.rfind(b"\n", 0, end - 1) + 1
        key = _key(text[start:end], place)
        if last is not None and key != last:
            return end
        last, end = key, start
    return 0


def _key(line: bytes, place: int) -> bytes:
    fields = line.split(b"\t", place + 1)
    return fields[place].partition(b"-")[0] if place < len(fields) else b""


class _Edge(NamedTuple):
    node1: str
    label: str
    node2: str
    id: str
    rank: str
    datatype: str


class KgtkParser:
    """Parses blocks of edges grouped by entity."""

    source: ClassVar[str] = "https://kgtk.readthedocs.io/en/latest/specification/"
    licence: ClassVar[str] = "CC0-1.0"
    version: ClassVar[str] = "2"
    bad_lines: ClassVar[tuple[str, ...]] = (NO_EDGE,)
    bad_statements: ClassVar[tuple[str, ...]] = (*BAD_STATEMENTS, NO_QUALIFIED)
    notes: ClassVar[tuple[str, ...]] = (*STATEMENT_NOTES, OTHER, NO_LANGUAGE)
    framing = Edges()
    lacks: ClassVar[tuple[str, ...]] = (
        "ranks where there is no column rank",
        "Wikidata's statement ids",
        "calendars",
        "precision of coordinates",
        "globes of coordinates",
        "revisions",
        "redirects",
    )
    datatypes_by_property: ClassVar[bool] = True

    def __init__(self, options: LoaderOptions) -> None:
        self.languages = options.languages
        self.articles = site_address(options.wiki).removeprefix("https:")

    def parse(self, block: bytes) -> Parsed:
        """Parse a block. All edges of an entity count as one line."""
        with collector_resting():
            return _Block(self).parsed(block)


class _Block:
    """Rows and counts of one block."""

    def __init__(self, parser: KgtkParser) -> None:
        self.parser = parser
        self.counts: Counter[str] = Counter()
        self.words: dict[str, dict[str, list[tuple[str, str]]]] = {}
        self.datatypes: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        self.statements: dict[str, dict[str, Statement]] = {}
        self.qualifiers: dict[str, list[_Edge]] = {}

    def parsed(self, block: bytes) -> Parsed:
        heading, _, rest = block.partition(b"\n")
        columns = _columns_of(heading)
        if not set(_COLUMNS) <= set(columns):
            # Without its header a file cannot be interpreted.
            for line in block.splitlines():
                if line.strip(b"[] \t\r"):
                    self._bad()
            rest = b""
        for line in rest.split(b"\n"):
            if line.strip():
                edge = _edge(line, columns)
                if edge is None:
                    self._bad()
                else:
                    self._add(edge)
        return self._result()

    def _bad(self) -> None:
        self.counts.update(("lines", NO_EDGE))

    def _add(self, edge: _Edge) -> None:
        subject = edge.node1
        # The id of an edge (Q1-P31-...), not of an entity: a qualifier.
        if "-" in subject:
            if is_property_id(edge.label) and subject.partition("-")[0][:1] in ("Q", "P"):
                self.qualifiers.setdefault(subject, []).append(edge)
        elif not _is_entity(subject):
            self.counts[OTHER] += 1
        elif edge.label in _WORDS:
            words = self.words.setdefault(subject, {})
            match = _TEXT.fullmatch(edge.node2)
            if match is None:
                self.counts[NO_LANGUAGE] += 1
            else:
                words.setdefault(edge.label, []).append((match[2].lower(), plain_line(_plain(match[1]))))
        elif edge.label in ("datatype", "property_type"):
            self.words.setdefault(subject, {})
            self.datatypes[subject] = edge.node2.strip('"')
        elif edge.label == "wikipedia_sitelink":
            address = edge.node2.strip('"').partition(":")[2]
            if address.startswith(f"{self.parser.articles}wiki/"):
                self.titles[subject] = plain_line(unquote(address.rpartition("/wiki/")[2]).replace("_", " "))
        elif is_property_id(edge.label):
            self._add_statement(edge)

    def _add_statement(self, edge: _Edge) -> None:
        self.words.setdefault(edge.node1, {})
        snak = _snak(edge)
        if snak is None or edge.rank not in ("preferred", "normal", "deprecated"):
            self.counts.update(("statements", "unreadable value" if snak is None else "malformed statement"))
            return
        name = edge.id or f"{edge.node1}-{edge.label}-{len(self.statements.get(edge.node1, ()))}"
        statements = self.statements.setdefault(edge.node1, {})
        if name in statements:
            self.counts.update(("statements", "malformed statement"))
        else:
            statements[name] = Statement(snak, edge.id or None, edge.rank, {})  # type: ignore[arg-type]

    def _result(self) -> Parsed:
        for name, edges in self.qualifiers.items():
            statement = self.statements.get(name.partition("-")[0], {}).get(name)
            if statement is None:
                self.counts.update(("statements", NO_QUALIFIED))
                continue
            qualifiers: Any = statement.qualifiers
            for edge in edges:
                snak = _snak(edge)
                if snak is None:
                    self.counts["unreadable qualifier"] += 1
                else:
                    qualifiers.setdefault(edge.label, []).append(snak)
        claims: list[tuple[Any, ...]] = []
        entities = []
        for name, words in self.words.items():
            self.counts["lines"] += 1
            entities.append(self._row(name, words))
            append_claims(claims, self.counts, name, list(self.statements.get(name, {}).values()))
        return Parsed(table(claims, CLAIMS), table(entities, ENTITIES), self.counts)

    def _row(self, name: str, words: dict[str, list[tuple[str, str]]]) -> tuple[Any, ...]:
        label, language = self._first(words.get("label", []))
        description, _ = self._first(words.get("description", []))
        given = words.get("alias", [])
        aliases = [text for wanted in self.parser.languages for language_, text in given if language_ == wanted]
        return (
            name, "property" if name[0] == "P" else "item", label, language, description, without_repetition(aliases),
            self.titles.get(name), self.datatypes.get(name), None, None,
        )  # fmt: skip

    def _first(self, words: list[tuple[str, str]]) -> tuple[str | None, str | None]:
        for wanted in self.parser.languages:
            for language, text in words:
                if language == wanted and text:
                    return text, language
        return None, None


def _is_entity(name: str) -> bool:
    return name[:1] in ("Q", "P") and is_id_of("property" if name[0] == "P" else "item", name)


def _edge(line: bytes, columns: dict[str, int]) -> _Edge | None:
    try:
        fields = line.rstrip(b"\r").decode().split("\t")
    except UnicodeDecodeError:
        return None

    def field(name: str, otherwise: str = "") -> str:
        place = columns.get(name, len(fields))
        return fields[place] if place < len(fields) and fields[place] else otherwise

    if len(fields) != len(columns) or not all(field(name) for name in _COLUMNS):
        return None
    return _Edge(
        field("node1"),
        field("label"),
        field("node2"),
        field("id"),
        field("rank", "normal"),
        field("node2;wikidatatype"),
    )


def _snak(edge: _Edge) -> Snak | None:
    """The snak of an edge's value; None if KGTK does not write such values for Wikidata."""
    if edge.node2 in ("novalue", "somevalue"):
        return Snak(edge.node2, edge.label, None, edge.datatype or None)
    value = _value(edge.node2)
    return None if value is None else Snak("value", edge.label, value, edge.datatype or None)


def _value(text: str) -> DataValue | None:  # noqa: PLR0911 - one for each kind of value
    if is_entity_id(text):
        return DataValue("wikibase-entityid", Value(id=text))
    if match := _STRING.fullmatch(text):
        return DataValue("string", _plain(match[1]))
    if match := _TEXT.fullmatch(text):
        return DataValue("monolingualtext", Value(text=_plain(match[1]), language=match[2]))
    if match := _TIME.fullmatch(text):
        return DataValue("time", Value(time=match[1], precision=int(match[2])))
    if match := _PLACE.fullmatch(text):
        return DataValue("globecoordinate", Value(latitude=float(match[1]), longitude=float(match[2])))
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    # "1" is Wikidata's unit of plain numbers.
    unit = f"{_WIKIDATA}{match[4]}" if match[4] else "1"
    return DataValue("quantity", Value(amount=match[1], lowerBound=match[2], upperBound=match[3], unit=unit))


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text) if "\\" in text else text
