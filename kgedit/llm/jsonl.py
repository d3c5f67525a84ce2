"""Append-only line files that survive a kill: complete lines are kept, an incomplete last line is ignored."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_BLOCK = 1 << 16


def read_lines(path: Path) -> list[str]:
    """Read the complete lines of a file; empty if there is no file."""
    whole = path.read_bytes().rpartition(b"\n")[0] if path.is_file() else b""
    # Not splitlines(), which also breaks at U+2028; that may occur in a JSON string.
    return whole.decode("utf-8").split("\n") if whole else []


def cut_half_line(path: Path) -> None:
    """Truncate a file after its last complete line."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        length = end = file.seek(0, os.SEEK_END)
        whole = 0
        while end > 0 and not whole:
            start = max(0, end - _BLOCK)
            file.seek(start)
            whole = start + file.read(end - start).rfind(b"\n") + 1
            whole, end = (whole if whole > start else 0), start
        if whole < length:
            file.truncate(whole)


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Append lines in one write and flush them to the operating system, so that they survive a kill."""
    if not lines:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
