"""Texts of a block: everything between the brackets and commas of an array, however it is split into lines."""

from __future__ import annotations

import pytest

from kgedit.store.framing import entity_texts


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
