"""JSON Lines of a run folder whose first line records how the others were created, for example by which judge."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from kgedit.errors import TimestepError
from kgedit.files import replace_file
from kgedit.llm.jsonl import read_lines

Head = TypeVar("Head")
Line = TypeVar("Line")


def write_headed(path: Path, head: object, lines: Iterable[object]) -> Path:
    """Write a file atomically."""
    return replace_file(path, b"".join(msgspec.json.encode(row) + b"\n" for row in (head, *lines)))


def read_headed(
    path: Path, head: type[Head], line: type[Line], *, holds: str, again: str
) -> tuple[Head, list[Line]] | None:
    """Read the first line and the others; None if the file does not exist.

    Args:
        head: Type of the first line.
        line: Type of the others.
        holds: Content that the file should have, for the error message.
        again: Command that creates it again, for the error message.

    Raises:
        TimestepError: if a line cannot be read.
    """
    try:
        rows = read_lines(path)
        if not rows:
            return None
        others = msgspec.json.decode(f"[{','.join(rows[1:])}]", type=list[line])  # type: ignore[valid-type]
        return msgspec.json.decode(rows[0], type=head), others
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TimestepError(f"{path} holds no {holds}: {error}. Delete it and {again}") from error
