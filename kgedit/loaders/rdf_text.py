"""Finds entities in RDF text, and converts Turtle to lines of N-Triples.

N-Triples need no library, because each line is a triple. Turtle is parsed with rdflib, entity by entity, which is far
slower; the prefixes at the beginning of the file are added to every block. Documents of other forms, and Turtle that
does not mark entities as the dumps do, are read as a whole.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from kgedit.errors import SourceError
from kgedit.store.framing import LONGEST_ENTITY, Marked, without_mark

if TYPE_CHECKING:
    import rdflib


# These forms do not mark where an entity ends, so rdflib reads the whole document, and the triples are sorted into the
# order of a dump: shared nodes first, then entity by entity.


_RDF_XML = re.compile(rb"\s*(?:<\?xml[^>]*>)?(?:\s|<!--.*?-->|<!DOCTYPE rdf.*?\]>)*<rdf:RDF", re.DOTALL)
_JSON_LD = re.compile(rb'\s*[\[{].{0,2000}?"@(?:context|graph|id)"', re.DOTALL)

_ENTITY = re.compile(r"http://www\.wikidata\.org/entity/[A-Z][0-9]+")
_CLAIM = re.compile(r"http://www\.wikidata\.org/prop/P[0-9]+")
_ABOUT = "http://schema.org/about"

BLOCK_BYTES = 1 << 22
"""Approximate size of a block in bytes."""


def document_form(text: bytes) -> str | None:
    """rdflib's name for the form of a document that begins with this text: "xml", "json-ld", or None."""
    if _RDF_XML.match(text):
        return "xml"
    return "json-ld" if _JSON_LD.match(text) else None


def blocks_of_document(chunks: Iterator[bytes | bytearray], path: Path, form: str) -> Iterator[bytes]:
    """Convert a document to blocks of N-Triples with whole entities.

    Raises:
        SourceError: if the document is too long or truncated, or refers to a context on the network.
    """
    text = bytearray()
    for chunk in chunks:
        text += chunk
        if len(text) > LONGEST_ENTITY:
            raise SourceError(
                f"{path} is a document of more than {LONGEST_ENTITY:,} bytes, which would have to be read at once. "
                "Use N-Triples, the JSON dump, or several files."
            )
    try:
        if form == "json-ld":
            _refuse_what_is_elsewhere(bytes(text), path)
        graph = parse(bytes(text), form)
    except SourceError:
        raise
    except Exception as error:  # the parsers used by rdflib have no common error
        reason = str(error).split("\n", 1)[0][:200]
        raise SourceError(f"{path} cannot be read as {_NAMES[form]}: {reason}. Is it whole?") from error
    yield from _in_blocks(graph)


_NAMES = {"xml": "RDF/XML", "json-ld": "JSON-LD", "turtle": "Turtle"}


def parse(text: bytes, form: str) -> rdflib.Graph:
    """Parse the triples of a text, keeping literals as written."""
    import rdflib

    graph = rdflib.Graph()
    was = rdflib.NORMALIZE_LITERALS
    # It warns about each date BC, which Python does not support; the loader parses dates itself.
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)
    # Normalization would change the amount "+1.50" and fail on dates BC.
    rdflib.NORMALIZE_LITERALS = False
    try:
        graph.parse(data=text, format=form)
    finally:
        rdflib.NORMALIZE_LITERALS = was
    return graph


def lines_of(triples: Iterable[tuple[Any, Any, Any]]) -> list[bytes]:
    """Triples as lines of N-Triples: the beginnings of entities first, then in text order."""
    lines = [f"{_token(s)} {_token(p)} {_token(o)} .".encode() for s, p, o in triples]
    lines.sort(key=lambda line: (b"schema.org/Dataset>" not in line, line))
    return lines


def _refuse_what_is_elsewhere(text: bytes, path: Path) -> None:
    """Refuse a context given by its address, which would be downloaded each time the file is read."""

    def checked(pair: dict[str, Any], contexts: Any) -> dict[str, Any]:
        for context in contexts if isinstance(contexts, list) else [contexts]:
            if isinstance(context, str) or (isinstance(context, dict) and "@import" in context):
                _refuse(path)
        return pair

    json.loads(text, object_hook=lambda pair: checked(pair, pair.get("@context", ())))


def _refuse(path: Path) -> NoReturn:
    raise SourceError(
        f"{path} names a JSON-LD context that is kept elsewhere. Download it as N-Triples (.nt) or Turtle (.ttl)."
    )


def _in_blocks(graph: rdflib.Graph) -> Iterator[bytes]:
    owners = _owners(graph)
    shared: list[tuple[Any, Any, Any]] = []
    own: dict[str, list[tuple[Any, Any, Any]]] = defaultdict(list)
    for triple in graph:
        owner = owners.get(str(triple[0]))
        (shared if owner is None else own[owner]).append(triple)
    groups = [shared, *(own[owner] for owner in sorted(own, key=lambda address: (len(address), address)))]
    block = bytearray()
    for group in groups:
        block += b"".join(line + b"\n" for line in lines_of(group))
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


def _owners(graph: rdflib.Graph) -> dict[str, str]:
    """Entity to which each subject belongs: its data sets, articles and statements, and the entity itself."""
    owners = {str(s): str(s) for s in graph.subjects() if _ENTITY.fullmatch(str(s))}
    for s, p, o in graph:
        predicate = str(p)
        if predicate == _ABOUT and _ENTITY.fullmatch(str(o)):
            owners[str(s)] = str(o)
        elif _CLAIM.fullmatch(predicate):
            owners[str(o)] = str(s)
    return owners


def _token(term: object) -> str:
    import rdflib

    if isinstance(term, rdflib.URIRef):
        return f"<{term}>"
    if not isinstance(term, rdflib.Literal):
        return f"_:{term}"
    text = str(term).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    tail = f"@{term.language}" if term.language else f"^^<{term.datatype}>" if term.datatype else ""
    return f'"{text}"{tail}'


TRIPLE = re.compile(rb"[ \t]*(<[^<>\s]*>|_:\S+)[ \t]+(<[^<>\s]*>)[ \t]+(.*?)[ \t]*\.[ \t]*(?:#[^\"]*)?\r?")
"""A triple with any spacing allowed by N-Triples."""

_BEGINS = re.compile(
    rb"^(?:<[^<>\s]*/Special:EntityData/[A-Z][0-9]+> <http://www\.w3\.org/1999/02/22-rdf-syntax-ns#type> "
    rb"<http://schema\.org/Dataset> ?\."
    rb"|\w*data:[A-Z][0-9]+ (?:a|rdf:type) schema:Dataset\b)",
    re.MULTILINE,
)
_PREFIX = re.compile(rb"^[ \t]*(?:@prefix|@base|prefix|base)\s.*$", re.MULTILINE | re.IGNORECASE)
TURTLE = re.compile(rb"(?:\s*#[^\n]*\n)*\s*(?:@prefix|@base|prefix|base)\s", re.IGNORECASE)
"""Beginning of a Turtle file."""


class RdfFraming(Marked):
    """Entities that begin with their schema:Dataset; each block of Turtle gets the prefixes of the file."""

    def __init__(self) -> None:
        super().__init__(_BEGINS, whole_end=(b".",))

    def blocks(self, chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
        """Blocks of whole entities."""
        first = _beginning(chunks)
        form = "turtle" if _lacks_entity(first) else document_form(without_mark(first))
        if form is not None:
            yield from blocks_of_document(chain([without_mark(first)], chunks), path, form)
            return
        prefixes = prefixes_of(without_mark(first))
        for number, block in enumerate(super().blocks(chain([first], chunks), path)):
            yield prefixes + block if number else without_mark(block)


RDF = RdfFraming()


def _beginning(chunks: Iterator[bytes | bytearray]) -> bytes:
    """First chunk; of Turtle, with more until an entity begins, because the prefixes may be longer than a chunk."""
    first = bytes(next(chunks, b""))
    while (b"\n" not in first or _lacks_entity(first)) and len(first) < BLOCK_BYTES:
        more = next(chunks, b"")
        if not more:
            break
        first += more
    return first


def _lacks_entity(text: bytes) -> bool:
    """Whether a Turtle text does not mark where entities begin, as with other prefixes than the dumps'."""
    return bool(TURTLE.match(without_mark(text))) and not _BEGINS.search(text)


def prefixes_of(text: bytes) -> bytes:
    """Prefix lines at the beginning of a Turtle text; empty for N-Triples."""
    if not TURTLE.match(text):
        return b""
    begun = _BEGINS.search(text)
    head = text[: begun.start()] if begun else text
    return b"".join(line + b"\n" for line in _PREFIX.findall(head))


def triples_of(block: bytes) -> Iterator[bytes]:
    """Lines of a block with one triple each, without comments and blank lines; Turtle is converted to such lines."""
    if TURTLE.match(block):
        yield from _from_turtle(block)
        return
    for line in block.split(b"\n"):
        if line and line[:1] != b"#":
            yield line


def _from_turtle(block: bytes) -> Iterator[bytes]:
    """Triples of Turtle, entity by entity; the first triple of each marks its beginning."""
    prefixes = prefixes_of(block)
    starts = [match.start() for match in _BEGINS.finditer(block)]
    bounds = [*starts, len(block)]
    yield from _parse_turtle(block[: bounds[0]])
    for start, end in pairwise(bounds):
        yield from _parse_turtle(prefixes + block[start:end])


def _parse_turtle(text: bytes) -> list[bytes]:
    try:
        return lines_of(parse(text, "turtle"))
    except Exception:  # rdflib's parser has no error of its own; the line is counted as unreadable
        return [b"malformed Turtle"]
