"""Text is cut between entities, at positions that do not depend on the size of the chunks read, and into their JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kgedit.errors import SourceError
from kgedit.store import framing
from kgedit.store.framing import Marked, entity_texts

ENTITIES = Marked(re.compile(rb"^begin ", re.MULTILINE), whole_end=(b".",))
TEXT = b"head .\n" + b"".join(b"begin %d .\n" % number + b"more of it .\n" * (number % 4) for number in range(300))


def blocks(text: bytes, size: int) -> list[bytes]:
    return list(ENTITIES.blocks((text[at : at + size] for at in range(0, len(text), size)), Path("dump")))


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 1 << 20])
def test_blocks_hold_whole_entities_and_nothing_is_lost(size: int) -> None:
    found = blocks(TEXT, size)
    assert b"".join(found) == TEXT
    assert all(block.startswith(b"begin ") for block in found[1:])
    assert len(found) == 2 if size > len(TEXT) else len(found) > 3


def test_a_beginning_far_from_the_end_of_a_chunk_is_found() -> None:
    long = b"begin 1 .\n" + b"begin 2 .\n" + b"x .\n" * 100_000
    assert [len(block) for block in blocks(long + b"begin 3 .\n", len(long))] == [10, len(long) - 10, 10]


def test_the_first_entities_are_counted_with_what_stands_before_them() -> None:
    assert ENTITIES.first(TEXT, 2) == (b"head .\nbegin 0 .\nbegin 1 .\nmore of it .\n", 2)
    assert ENTITIES.first(b"begin 1 .\n", 5) == (b"begin 1 .\n", 1)


def test_text_that_ends_in_the_middle_of_a_line_is_truncated() -> None:
    with pytest.raises(SourceError, match="ends in the middle of a line: it is truncated"):
        blocks(TEXT[:-4], 100)


def test_text_without_a_place_to_cut_is_not_read_into_memory_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LONGEST_ENTITY", 1000)
    with pytest.raises(SourceError, match="has 1,000 bytes in which no entity begins"):
        blocks(b"more of it .\n" * 1000, 100)


@pytest.mark.parametrize(
    ("block", "texts"),
    [
        (b'[\n{"a":1},\n{"b":2}\n]\n', [b'{"a":1}', b'{"b":2}']),
        (b'[{"a":1},\r\n{"b":2}]', [b'{"a":1}', b'{"b":2}']),
        (b'\xef\xbb\xbf[{"a":[1]},{"b":2}]\n', [b'{"a":[1]}', b'{"b":2}']),
        (b"[]\n[ ]\n\n,\n", []),
        (b'{"a":[1]', [b'{"a":[1]']),
        (b'[{"a":1},{"b"', [b'[{"a":1},{"b"']),
        (b'{"a":1},{"b":2}', [b'{"a":1},{"b":2}']),
        (b"[" * 2000 + b"]" * 2000, [b"[" * 2000 + b"]" * 2000]),
    ],
)
def test_brackets_are_no_text_and_what_is_no_array_stays_as_it_is(block: bytes, texts: list[bytes]) -> None:
    assert list(entity_texts(block)) == texts
