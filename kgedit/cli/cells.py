"""Makes text of the graph safe to print: a label could contain control sequences or spreadsheet formulas."""

from __future__ import annotations

import re
from typing import Any

_LINES_AND_TABS = "\t\n\r"
# C0 and C1 control characters and DEL; line separators; characters that reverse the direction of the following text;
# halves of surrogate pairs, which no terminal encoding can write.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = tuple("=+-@\t\r\n")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def visible(text: str, *, keep: str = "") -> str:
    """The text with each control character as a visible symbol: ␛ for escape, ␊ for a line break, else U+FFFD.

    Args:
        text: Text of the graph.
        keep: Control characters to keep, such as the line breaks of a message with several lines.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else _picture(found[0]), text)


def plain_text(value: Any) -> str:
    """A value as text of one cell: empty for None, list items separated by commas."""
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def table_cell(value: Any) -> str:
    """A value in a form that is safe for the terminal."""
    return visible(plain_text(value))


def csv_cell(value: Any) -> str:
    """A value in a form that is safe for a spreadsheet: possible formulas are prefixed with an apostrophe."""
    text = visible(plain_text(value), keep=_LINES_AND_TABS)
    is_formula = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"
