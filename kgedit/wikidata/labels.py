"""Normalizes labels, descriptions, aliases and titles to one line of plain text."""

from __future__ import annotations

_CONTROL_CHARACTERS = {
    number: None for number in (*range(0x20), *range(0x7F, 0xA0)) if not chr(number).isspace()
}  # C0, DEL and C1; a terminal would execute some of them.


def plain_line(text: str) -> str:
    r"""Remove control characters, trim, and collapse white space; the result may be empty.

    >>> plain_line(" New\r\n York\u2028 \x1b")
    'New York'
    """
    if text.isprintable() and "  " not in text and text.strip() == text:
        return text
    return " ".join(text.translate(_CONTROL_CHARACTERS).split())
