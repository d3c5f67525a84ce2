"""Finds JSON texts in a block of lines: usually one per line, with the brackets of an array on separate lines."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

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
