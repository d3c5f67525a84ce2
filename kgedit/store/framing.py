"""Cuts source formats into blocks of whole entities, and limits the number of entities of a load.

A block contains whole entities and is always cut at the same positions, so that blocks can be parsed in any order by
any process and an interrupted load finds its blocks again. Cutting reads only the separators of entities, not their
content. `entity_texts` finds the JSON texts in a block of lines: usually one per line, with the brackets of an array on
separate lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec

from kgedit.errors import SourceError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""UTF-8 byte order mark, which some editors put at the beginning of a file."""

_AROUND_ENTITIES = b" \t\r\n," + BYTE_ORDER_MARK
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_BRACKETS = b"[]"


def entity_texts(block: bytes) -> Iterator[bytes]:
    """Texts that may be entities, without brackets, blank lines, commas between lines and a byte order mark.

    Each element of a line that begins or ends the array, or is a whole array, is a separate text.
    """
    for line in block.splitlines():
        text = line.strip(_AROUND_ENTITIES)
        if text in (b"", b"[", b"]"):
            continue
        if text[0] in _BRACKETS or text[-1] in _BRACKETS:
            yield from _elements(text)
        else:
            yield text


def _elements(text: bytes) -> Iterator[bytes]:
    """The elements of (part of) an array, or the text itself if it is not an array."""
    inside = text.removeprefix(b"[").removesuffix(b"]").strip(_AROUND_ENTITIES)
    try:
        elements = _ELEMENTS.decode(b"[" + inside + b"]")
    except (msgspec.DecodeError, RecursionError):
        yield text
    else:
        yield from map(bytes, elements)


LONGEST_ENTITY = 1 << 28
"""No entity is nearly this long in any format, and a dump without a cut position must fit in memory."""


class Cut(Protocol):
    """Finds the latest position at which a text may be cut."""

    def __call__(self, text: bytes, /) -> int: ...


class Framing(Protocol):
    """Finds where the entities of a format begin and end."""

    def blocks(self, chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
        """Blocks of whole entities of about the size of the chunks. A chunk is overwritten when the next one is read.

        Raises:
            SourceError: with the path, if the text has no cut position or is truncated.
        """
        ...

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The first `count` entities of a block, as a block, and the number of entities in it."""
        ...


class JsonLines:
    """One entity per line, or a JSON array with one entity per line."""

    def blocks(self, chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
        """Blocks of whole lines."""
        first, end = b"", b""
        for block in _whole_lines(chunks, path):
            first = first or without_mark(block).lstrip()[:1]
            end = (end + block[-64:]).rstrip()[-64:]
            yield block
        check_array(first, end, path)

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The first `count` texts that may be entities, and their number."""
        taken = list(islice(entity_texts(block), count))
        return b"\n".join(taken), len(taken)


def check_array(begin: bytes, end: bytes, path: Path) -> None:
    """Check by the beginning and the end of a JSON dump, without blanks, that it is not truncated.

    Raises:
        SourceError: if it begins an array and does not end it.
    """
    if without_mark(begin).lstrip().startswith(b"[") and not end.endswith(b"]"):
        raise SourceError(f"{path} begins a JSON array and does not end it: the dump is truncated. Download it again.")


class Marked:
    """Entities that each begin with a marking line, as in RDF.

    Args:
        begins: Pattern that matches at the beginning of an entity and nowhere else.
        whole_end: Possible ends of the last non-blank line of a complete file.
    """

    def __init__(self, begins: re.Pattern[bytes], *, whole_end: tuple[bytes, ...]) -> None:
        self._begins = begins
        self._whole_end = whole_end

    def blocks(self, chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
        """Blocks that each begin at the beginning of an entity, except the first."""
        end = b""
        for block in cut_at(chunks, path, self._before_the_last_entity, LONG_ENTITY):
            end = (end + block[-64:]).rstrip()[-64:]
            yield block
        if end and not end.endswith(self._whole_end):
            raise SourceError(f"{path} ends in the middle of a line: it is truncated. Download it again.")

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The text up to the end of the `count`-th entity, and the number of entities in it."""
        begun = 0
        for found in self._begins.finditer(block):
            if begun == count:
                return block[: found.start()], count
            begun += 1
        return block, begun

    def _before_the_last_entity(self, text: bytes) -> int:
        # Searches backwards in growing pieces, because a block contains thousands of entities.
        size = 1 << 16
        while True:
            start = max(0, len(text) - size)
            last = max((found.start() for found in self._begins.finditer(text, start)), default=0)
            if last or not start:
                return last
            size *= 8


LONG_LINE = (
    "has a line longer than {longest:,} bytes. kgedit reads dumps with one entity a line, as Wikidata publishes them. "
    "Split an array into lines: jq -c '.[]' OLD.json > NEW.json"
)
LONG_ENTITY = (
    "has {longest:,} bytes in which no entity begins. kgedit reads RDF that is grouped by entity, as Wikidata's dumps "
    "are; sorted or shuffled triples are not."
)


def cut_at(chunks: Iterator[bytes | bytearray], path: Path, place: Cut, too_long: str) -> Iterator[bytes]:
    """Cut a text into blocks that end where `place` returns, the last one at the end of the text.

    Args:
        chunks: The text, in pieces.
        path: Path for error messages.
        place: Returns the position of the last cut in a text; 0 means there is none.
        too_long: Rest of the error message for a file without a cut position in LONGEST_ENTITY bytes.
    """
    rest = b""
    for chunk in chunks:
        text = bytes(rest + chunk)
        cut = place(text)
        if cut:
            yield text[:cut]
            rest = text[cut:]
        elif len(text) > LONGEST_ENTITY:
            raise SourceError(f"{path} {too_long.format(longest=LONGEST_ENTITY)}")
        else:
            rest = text
    if rest:
        yield rest


def _whole_lines(chunks: Iterator[bytes | bytearray], path: Path) -> Iterator[bytes]:
    """Like `cut_at`, but a chunk is copied once, because a line break is one byte and needs no search across chunks."""
    rest: list[bytes] = []
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join((*rest, memoryview(chunk)[:cut]))
            rest = [bytes(chunk[cut:])]
        else:
            rest.append(bytes(chunk))
            if sum(map(len, rest)) > LONGEST_ENTITY:
                raise SourceError(f"{path} {LONG_LINE.format(longest=LONGEST_ENTITY)}")
    if last := b"".join(rest):
        yield last


def without_mark(text: bytes) -> bytes:
    """Remove the byte order mark that some editors put at the beginning of a file."""
    return text.removeprefix(BYTE_ORDER_MARK)


JSON_LINES = JsonLines()
