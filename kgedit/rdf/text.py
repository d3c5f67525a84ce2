"""Finds entities in RDF text, and converts Turtle to lines of N-Triples.

N-Triples need no library, because each line is a triple. Turtle is parsed with rdflib, entity by entity, which is far
slower; the prefixes at the beginning of the file are added to every block. Documents of other forms are read as a
whole (kgedit.rdf.documents).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from kgedit.rdf.documents import blocks_of_document, document_form, lines_of, parse
from kgedit.store.framing import Marked, without_mark

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
        first = bytes(next(chunks, b""))
        form = document_form(without_mark(first))
        if form is not None:
            yield from blocks_of_document(chain([without_mark(first)], chunks), path, form)
            return
        prefixes = prefixes_of(without_mark(first))
        for number, block in enumerate(super().blocks(chain([first], chunks), path)):
            yield prefixes + block if number else without_mark(block)


RDF = RdfFraming()


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
    pieces = [block[: starts[0]] if starts else block]
    pieces += [block[start:end] for start, end in zip(starts, [*starts[1:], len(block)], strict=True)]
    for number, piece in enumerate(pieces):
        yield from _parse_turtle(piece if number == 0 else prefixes + piece)


def _parse_turtle(text: bytes) -> list[bytes]:
    try:
        return lines_of(parse(text, "turtle"))
    except Exception:
        return [b"malformed Turtle"]
