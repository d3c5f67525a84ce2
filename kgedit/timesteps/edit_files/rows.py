"""Objects of a file, stored as a JSON list, JSON Lines, or Parquet."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_PARQUET = b"PAR1"
_SHOWN = 80


class NotRowsError(ValueError):
    """The bytes are not a list of objects; the message describes their content."""


def read_rows(content: bytes) -> list[Any]:
    """Read the list in a file; the format is recognised by content, not by name.

    Raises:
        NotRowsError: if it is not a list, or cannot be read.
    """
    if content.startswith(_PARQUET):
        try:
            rows: list[Any] = pq.read_table(io.BytesIO(content)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise NotRowsError(f"it begins as Parquet does, and {error}") from error
        return rows
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotRowsError(f"it is neither Parquet nor text in UTF-8 ({error.reason})") from error
    return _read_text(text.strip())


def _read_text(text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except ValueError as error:
        lines = text.splitlines()
        if len(lines) < 2 or not text.startswith("{"):
            raise NotRowsError(f"it is no JSON: {error}, beginning {text[:_SHOWN]!r}") from error
        return [_line(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict) and "\n" not in text:
        return [whole]  # JSON Lines of one line
    fields = f" with {', '.join(list(whole)[:8])}" if isinstance(whole, dict) else ""
    raise NotRowsError(f"it is one JSON {type(whole).__name__}{fields}, not a list of objects")


def _line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise NotRowsError(f"line {number} is no JSON: {error}") from error
