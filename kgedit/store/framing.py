"""How a source format is cut into blocks of whole entities, and after how many of them a load with a limit stops.

A block holds whole entities and is always cut in the same places: blocks are parsed in any order, by any process, and
a load that was interrupted finds its blocks again. Only what separates entities is looked at, never their content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from kgedit.errors import SourceError
from kgedit.store.lines import BYTE_ORDER_MARK, entity_texts

LONGEST_ENTITY = 1 << 28
"""No entity is nearly as long in any format, and a whole dump without a place to cut must fit in memory."""


class Cut(Protocol):
    """Where a text may be cut last."""

    def __call__(self, text: bytes, /) -> int: ...


class Framing(Protocol):
    """Where the entities of a format begin and end."""

    def blocks(self, chunks: Iterator[bytes], path: Path) -> Iterator[bytes]:
        """Blocks of whole entities of about the size of the chunks.

        Raises:
            SourceError: naming the path, if the text has no place to cut or ends before its end.
        """
        ...

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The first so many entities of a block, as a block, and how many they are."""
        ...


class JsonLines:
    """One entity a line, or an array with one entity a line."""

    def blocks(self, chunks: Iterator[bytes], path: Path) -> Iterator[bytes]:
        """Blocks of whole lines."""
        first, end = b"", b""
        for block in cut_at(chunks, path, _after_the_last_line, LONG_LINE):
            first = first or without_mark(block).lstrip()[:1]
            end = (end + block[-64:]).rstrip()[-64:]
            yield block
        if first == b"[" and not end.endswith(b"]"):
            raise SourceError(
                f"{path} begins a JSON array and does not end it: the dump is truncated. Download it again."
            )

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The first texts that may be entities."""
        taken = list(islice(entity_texts(block), count))
        return b"\n".join(taken), len(taken)


class Marked:
    """Entities that begin with a line of their own, as in RDF.

    Args:
        begins: Matches at the beginning of an entity; it must match nowhere else.
        whole_end: What the last line that is not blank ends with, in a file that is whole.
    """

    def __init__(self, begins: re.Pattern[bytes], *, whole_end: tuple[bytes, ...]) -> None:
        self._begins = begins
        self._whole_end = whole_end

    def blocks(self, chunks: Iterator[bytes], path: Path) -> Iterator[bytes]:
        """Blocks that begin with the beginning of an entity, all but the first."""
        end = b""
        for block in cut_at(chunks, path, self._before_the_last_entity, LONG_ENTITY):
            end = (end + block[-64:]).rstrip()[-64:]
            yield block
        if end and not end.endswith(self._whole_end):
            raise SourceError(f"{path} ends in the middle of a line: it is truncated. Download it again.")

    def first(self, block: bytes, count: int) -> tuple[bytes, int]:
        """The text up to the entity after so many."""
        begun = 0
        for found in self._begins.finditer(block):
            if begun == count:
                return block[: found.start()], count
            begun += 1
        return block, begun

    def _before_the_last_entity(self, text: bytes) -> int:
        # Searched from the end in growing pieces: a block holds thousands of entities.
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


def cut_at(chunks: Iterator[bytes], path: Path, place: Cut, too_long: str) -> Iterator[bytes]:
    """Blocks that end where `place` says, the last one where the text ends.

    Args:
        chunks: The text.
        path: Named in errors.
        place: Gives the place of the last cut in a text; 0 for none.
        too_long: What to say of a file without a place to cut in LONGEST_ENTITY bytes.
    """
    rest = b""
    for chunk in chunks:
        text = rest + chunk
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


def _after_the_last_line(text: bytes) -> int:
    return text.rfind(b"\n") + 1


def without_mark(text: bytes) -> bytes:
    """A text without the byte order mark that some editors put at its beginning."""
    return text.removeprefix(BYTE_ORDER_MARK)


JSON_LINES = JsonLines()
