"""Converts blocks of Wikidata's RDF to rows; shared by the loaders of full and truthy dumps.

An entity is the text between two lines that begin a schema:Dataset. Value nodes (dates with their precision, quantities
with their unit) are shared by all entities and may be in an earlier block; statements without their nodes wait
(kgedit.store.builds).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, Literal
from urllib.parse import unquote_to_bytes

from kgedit.loaders.rdf_text import RDF, TRIPLE, triples_of
from kgedit.store.rows import (
    BAD_STATEMENTS,
    STATEMENT_NOTES,
    Statement,
    append_claims,
    collector_resting,
    table,
    without_repetition,
)
from kgedit.store.schemas import CLAIMS, ENTITIES, NODES, WAITING, LoaderOptions, Parsed, Waiting
from kgedit.wikidata.ids import is_id_of, is_property_id, plain_line, site_address
from kgedit.wikidata.snaks import (
    RdfTerm,
    Snak,
    UnreadableError,
    datatype_of,
    entity_id,
    needs_node,
    parse_term,
    snak_of,
    snak_of_node,
)

MALFORMED = "malformed triple"
"""Reason for a line that is not a triple."""

NO_ENTITY = "statement of no entity"
"""Reason for a statement to which no entity of its block refers."""

_WD = rb"http://www\.wikidata\.org/"
_SKIPPED = {"L": "lexeme", "M": "mediainfo"}

# Role of a predicate by its address. Roles of statements are names, so that waiting statements can be recognised.
_FIXED = {
    b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>": "type",
    b"<http://schema.org/about>": "about",
    b"<http://schema.org/version>": "version",
    b"<http://schema.org/name>": "name",
    b"<http://www.w3.org/2000/01/rdf-schema#label>": "label",
    b"<http://schema.org/description>": "description",
    b"<http://www.w3.org/2004/02/skos/core#altLabel>": "alias",
    b"<http://www.w3.org/2002/07/owl#sameAs>": "same",
    b"<http://wikiba.se/ontology#propertyType>": "datatype",
    b"<http://wikiba.se/ontology#rank>": "rank",
}
_OF_NODE = re.compile(rb"<http://wikiba\.se/ontology#((?:time|quantity|geo)[A-Z][A-Za-z]+)>")
_OF_STATEMENT = re.compile(
    rb"<" + _WD + rb"prop/(?:(?P<role>direct|statement/value|statement|qualifier/value|qualifier)/)?(?P<id>P[0-9]+)>"
)
_ADDRESS = re.compile(rb"<[^<>\s]+>")
_ENTITY = b"<http://www.wikidata.org/entity/"
_STATEMENT = b"<http://www.wikidata.org/entity/statement/"
_DATASET = b"<http://schema.org/Dataset>"
_NO_VALUE = re.compile(rb"<" + _WD + rb"prop/novalue/(P[0-9]+)>")
_RANKS: dict[bytes, Literal["preferred", "normal", "deprecated"]] = {
    b"PreferredRank": "preferred",
    b"NormalRank": "normal",
    b"DeprecatedRank": "deprecated",
}

Role = tuple[str, str] | None


class RdfEntity:
    """Data read for an entity."""

    __slots__ = ("aliases", "datatype", "description", "direct", "kind", "label", "redirects", "revision", "statements")

    def __init__(self) -> None:
        self.kind: str | None = None
        self.datatype: str | None = None
        self.revision: int | None = None
        self.redirects: list[str] = []
        self.label: dict[bytes, bytes] = {}
        self.description: dict[bytes, bytes] = {}
        self.aliases: dict[bytes, list[bytes]] = {}
        self.statements: list[tuple[str, bytes]] = []
        self.direct: list[tuple[str, bytes]] = []


class RdfParser:
    """Base of the RDF loaders, which differ in the statements that they read.

    Attributes:
        languages: Tags of the wanted languages as in N-Triples ("@en"), in order of preference.
        articles: Prefix of the addresses of articles in the chosen wiki.
        roles: Roles of the predicates met so far.
    """

    licence: ClassVar[str] = "CC0-1.0"
    bad_lines: ClassVar[tuple[str, ...]] = (MALFORMED, "unusable id")
    bad_statements: ClassVar[tuple[str, ...]] = (*BAD_STATEMENTS, NO_ENTITY)
    notes: ClassVar[tuple[str, ...]] = STATEMENT_NOTES
    framing = RDF
    datatypes_by_property: ClassVar[bool] = True

    def __init__(self, options: LoaderOptions) -> None:
        self.languages = [f"@{language}".lower().encode() for language in options.languages]
        self._wanted = frozenset(self.languages)
        self.articles = f"<{site_address(options.wiki)}wiki/".encode()
        self.roles: dict[bytes, Role] = {}

    def parse(self, block: bytes) -> Parsed:
        """Parse a block; triples with unneeded predicates are only checked for their form."""
        with collector_resting():
            return RdfBlock(self).parsed(block)

    def role_of(self, predicate: bytes) -> Role:
        """Role and name of a predicate; ("", "") if it is not needed, None if it is not a predicate."""
        if predicate in _FIXED:
            return _FIXED[predicate], ""
        match = _OF_STATEMENT.fullmatch(predicate)
        if match is not None:
            return match["role"].decode() if match["role"] else "claim", match["id"].decode()
        match = _OF_NODE.fullmatch(predicate)
        if match is not None:
            return "node", match[1].decode()
        return ("", "") if _ADDRESS.fullmatch(predicate) else None

    def is_wanted(self, literal: bytes) -> bytes | None:
        """Language tag of a literal if its language is wanted; None otherwise."""
        tag = literal[literal.rfind(b'"') + 1 :].lower()
        return tag if tag in self._wanted else None

    def statements_of(self, block: RdfBlock, name: str, entity: RdfEntity) -> list[Statement]:
        """Statements of an entity that can be read now; the others are counted or wait."""
        raise NotImplementedError


class RdfBlock:
    """Rows and counts of one block."""

    def __init__(self, parser: RdfParser) -> None:
        self.parser = parser
        self.counts: Counter[str] = Counter()
        self.claims: list[tuple[Any, ...]] = []
        self.entities: dict[str, tuple[Any, ...]] = {}
        self.redirects: dict[tuple[str, str], tuple[Any, ...]] = {}
        self.nodes: dict[bytes, list[tuple[str, bytes, bytes]]] = {}
        self._read_nodes: dict[bytes, dict[str, RdfTerm]] = {}
        self.waiting: list[tuple[bytes, list[str]]] = []
        self._begin()

    def _begin(self) -> None:
        self.group: dict[bytes, RdfEntity] = {}
        self.statements: dict[bytes, list[tuple[str, str, bytes, bytes]]] = {}
        self.articles: dict[bytes, bytes] = {}
        self.names: dict[bytes, bytes] = {}
        self.revisions: dict[bytes, bytes] = {}
        self.datasets: dict[bytes, bytes] = {}

    def parsed(self, block: bytes) -> Parsed:
        roles, role_of = self.parser.roles, self.parser.role_of
        for line in triples_of(block):
            parts = line.split(b" ", 2)
            if len(parts) < 3 or parts[2][-2:] != b" ." or parts[0][:1] not in b"<_":
                match = TRIPLE.fullmatch(line)
                if match is None:
                    self._malformed(line)
                    continue
                subject, predicate, value = match.groups()
            else:
                subject, predicate, value = parts[0], parts[1], parts[2][:-2]
            role = roles.get(predicate, ("?", ""))
            if role == ("?", ""):
                role = roles[predicate] = role_of(predicate)
            if role is None:
                self._malformed(line)
            elif role[0]:
                try:
                    self._add(subject, predicate, value, *role)
                except (ValueError, UnicodeDecodeError):
                    self._malformed(line)
        self._end()
        return self._result()

    def _malformed(self, line: bytes) -> None:
        if line.strip():
            self.counts["lines"] += 1
            self.counts[MALFORMED] += 1

    def _add(self, subject: bytes, predicate: bytes, value: bytes, role: str, name: str) -> None:
        """Store the content of one triple."""
        if role == "node":
            self.nodes.setdefault(subject, []).append((name, predicate, value))
        elif role in ("claim", "direct"):
            entity = self._entity(subject)
            (entity.statements if role == "claim" else entity.direct).append((name, value))
        elif subject.startswith(_STATEMENT):
            self.statements.setdefault(subject, []).append((role, name, predicate, value))
        elif role == "type":
            self._add_type(subject, value)
        elif role == "about":
            if subject.startswith(self.parser.articles):
                self.articles[value] = subject
            elif b"Special:EntityData/" in subject:
                self.datasets[value] = subject
        elif role == "version":
            self.revisions[subject] = value
        elif role == "name":
            if subject.startswith(self.parser.articles):
                self.names[subject] = value
        elif subject.startswith(_ENTITY):
            self._add_word(self._entity(subject), value, role)

    def _add_type(self, subject: bytes, value: bytes) -> None:
        if value == _DATASET and b"Special:EntityData/" in subject:
            self._end()
            self.datasets[_ENTITY + subject[subject.rfind(b"/") + 1 :]] = subject
        elif subject.startswith(_ENTITY):
            if value == b"<http://wikiba.se/ontology#Item>":
                self._entity(subject).kind = "item"
            elif value == b"<http://wikiba.se/ontology#Property>":
                self._entity(subject).kind = "property"
            elif match := _NO_VALUE.fullmatch(value):
                self._entity(subject).direct.append((match[1].decode(), value))

    def _add_word(self, entity: RdfEntity, value: bytes, role: str) -> None:
        if role == "datatype":
            entity.datatype = datatype_of(parse_term(value).iri or "")
        elif role == "same":
            target = entity_id(parse_term(value).iri)
            if target is not None:
                entity.redirects.append(target)
        elif (tag := self.parser.is_wanted(value)) is not None:
            if role == "alias":
                entity.aliases.setdefault(tag, []).append(value)
            else:
                (entity.label if role == "label" else entity.description).setdefault(tag, value)

    def _entity(self, subject: bytes) -> RdfEntity:
        entity = self.group.get(subject)
        if entity is None:
            entity = self.group[subject] = RdfEntity()
        return entity

    def _end(self) -> None:
        """Convert the entities of a group to rows."""
        for address in self.datasets:
            letter = address[len(_ENTITY) : len(_ENTITY) + 1].decode("ascii", "replace")
            if letter in _SKIPPED:
                self.counts["lines"] += 1
                self.counts[_SKIPPED[letter]] += 1
                self.group.pop(address, None)
        for address, entity in self.group.items():
            self._add_entity(address, entity)
        for lines in self.statements.values():
            # The rest belongs to no entity; triples that only name a statement's classes are ignored.
            left = any(role != "type" for role, *_ in lines)
            self.counts["statements"] += left
            self.counts[NO_ENTITY] += left
        self._begin()

    def _add_entity(self, address: bytes, entity: RdfEntity) -> None:
        name = address[len(_ENTITY) : -1].decode("utf-8", "replace")
        described = entity.kind is not None
        kind = entity.kind or ("property" if name[:1] == "P" else "item")
        redirects = {(name, target): _redirect_row(name, kind, target) for target in entity.redirects}
        new = redirects.keys() - self.redirects.keys()
        self.counts["lines"] += described + len(new)
        if not is_id_of(kind, name):
            self.counts["unusable id"] += described + len(new)
            return
        self.redirects.update(redirects)
        statements = self.parser.statements_of(self, name, entity)
        if described and name in self.entities:
            self.counts["repeated entity"] += 1
            self.counts["statements"] += len(statements)
            self.counts["statement of a repeated entity"] += len(statements)
            return
        if described:
            self.entities[name] = self._row(name, kind, address, entity)
        append_claims(self.claims, self.counts, name, statements)

    def _row(self, name: str, kind: str, address: bytes, entity: RdfEntity) -> tuple[Any, ...]:
        label, language = self._first(entity.label)
        description, _ = self._first(entity.description)
        tags = self.parser.languages
        aliases = [self._text(token) for tag in tags for token in entity.aliases.get(tag, ())]
        return (
            name, kind, label, language, description, without_repetition(aliases), self._title(address),
            entity.datatype, self._revision(address), None,
        )  # fmt: skip

    def _first(self, words: dict[bytes, bytes]) -> tuple[str | None, str | None]:
        for tag in self.parser.languages:
            text = self._text(words[tag]) if tag in words else ""
            if text:
                return text, tag[1:].decode()
        return None, None

    def _text(self, token: bytes) -> str:
        try:
            return plain_line(parse_term(token).text or "")
        except (ValueError, UnicodeDecodeError):
            self._malformed(token)
            return ""

    def _title(self, address: bytes) -> str | None:
        article = self.articles.get(address)
        if article is None:
            return None
        if article in self.names:
            return self._text(self.names[article]) or None
        title = unquote_to_bytes(article[len(self.parser.articles) : -1]).decode("utf-8", "replace")
        return plain_line(title.replace("_", " ")) or None

    def _revision(self, address: bytes) -> int | None:
        token = self.revisions.get(self.datasets.get(address, b""), self.revisions.get(address))
        digits = token.split(b'"')[1] if token is not None and token.count(b'"') >= 2 else b""
        return int(digits) if digits.isdigit() and len(digits) < 19 else None

    def statement(self, subject: str, property_id: str, node: bytes) -> Iterator[Statement]:
        """Yield a statement, unless it has to wait or cannot be read."""
        lines = self.statements.pop(node, None)
        if lines is None or not is_property_id(property_id):
            self.counts["statements"] += 1
            self.counts["malformed statement" if lines is None else "unusable property id"] += 1
            return
        missing = [value for role, _, _, value in lines if role.endswith("/value") and value not in self.nodes]
        if missing:
            self._wait(subject, property_id, node, lines, missing)
            return
        try:
            main, qualifiers = self._snaks(property_id, lines)
        except (UnreadableError, ValueError):
            self.counts["statements"] += 1
            self.counts["unreadable value"] += 1
            return
        named = next((value for role, _, _, value in lines if role == "rank"), b"<#NormalRank>")
        rank = _RANKS.get(named[:-1].rpartition(b"#")[2])
        if rank is None:
            self.counts.update(("statements", "malformed statement"))
            return
        guid = node[len(_STATEMENT) : -1].decode("utf-8", "replace").replace("-", "$", 1)
        yield Statement(main, guid, rank, qualifiers)

    def _wait(
        self,
        subject: str,
        property_id: str,
        node: bytes,
        lines: list[tuple[str, str, bytes, bytes]],
        missing: list[bytes],
    ) -> None:
        link = b"<http://www.wikidata.org/prop/%b>" % property_id.encode()
        text = [_line(_ENTITY + subject.encode() + b">", link, node)]
        text += [_line(node, predicate, value) for _, _, predicate, value in lines]
        # Its nodes in this block are stored with it, because the statement is later parsed alone.
        for _, _, _, value in (line for line in lines if line[0].endswith("/value") and line[3] in self.nodes):
            text += [_line(value, predicate, said) for _, predicate, said in self.nodes[value]]
        self.waiting.append((b"".join(text), sorted({value.decode("utf-8", "replace") for value in missing})))

    def _snaks(
        self, property_id: str, lines: list[tuple[str, str, bytes, bytes]]
    ) -> tuple[Snak, dict[str, list[Snak]]]:
        """Main snak and qualifiers of a statement."""
        plain: dict[tuple[str, str], list[bytes]] = {}
        for role, name, _, value in lines:
            if role == "type":
                match = _NO_VALUE.fullmatch(value)
                if match is not None:
                    plain.setdefault(("novalue", match[1].decode()), [])
            elif role != "rank":
                plain.setdefault((role, name), []).append(value)
        mains = self._values(property_id, "statement", plain)
        if not mains and ("novalue", property_id) in plain:
            mains = [Snak("novalue", property_id)]
        if len(mains) != 1:
            raise UnreadableError("unreadable value")
        names = [name for role, name in plain if role in ("qualifier", "qualifier/value")]
        qualifiers = {name: self._values(name, "qualifier", plain) for name in dict.fromkeys(names)}
        for role, name in plain:
            if role == "novalue" and not (name == property_id and mains[0].snaktype == "novalue"):
                qualifiers.setdefault(name, []).append(Snak("novalue", name))
        return mains[0], qualifiers

    def _values(self, name: str, role: str, plain: dict[tuple[str, str], list[bytes]]) -> list[Snak]:
        """Snaks of one property: from value nodes, which contain complete values, or else from plain values."""
        nodes = [self._node(value) for value in plain.get((f"{role}/value", name), ())]
        in_nodes = {node["timeValue"].text for node in nodes if "timeValue" in node}
        terms = [parse_term(value) for value in plain.get((role, name), ())]
        snaks = [snak_of_node(name, node) for node in nodes]
        return snaks + [
            snak_of(name, term)
            for term in terms
            if not (nodes and (needs_node(term) or (term.text in in_nodes and term.language is None)))
        ]

    def _node(self, name: bytes) -> dict[str, RdfTerm]:
        node = self._read_nodes.get(name)
        if node is None:
            node = self._read_nodes[name] = {key: parse_term(value) for key, _, value in self.nodes[name]}
        return node

    def _result(self) -> Parsed:
        texts = [
            (name.decode("utf-8", "replace"), b"".join(_line(name, predicate, value) for _, predicate, value in said))
            for name, said in self.nodes.items()
        ]
        waiting = Waiting(table(self.waiting, WAITING), table(texts, NODES)) if self.waiting or texts else None
        rows = [*self.entities.values(), *self.redirects.values()]
        return Parsed(table(self.claims, CLAIMS), table(rows, ENTITIES), self.counts, waiting)


def _redirect_row(name: str, kind: str, target: str) -> tuple[Any, ...]:
    return name, kind, None, None, None, [], None, None, None, target


def _line(subject: bytes, predicate: bytes, value: bytes) -> bytes:
    return subject + b" " + predicate + b" " + value + b" .\n"
