"""Order of facts in a prompt: the best path last, next to the question; each path from its first hop."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.graph_memory.findings import FoundPath, Remembered


def reading_order(paths: Sequence[FoundPath]) -> list[Remembered]:
    """Facts of paths, which are given best first; every fact occurs once."""
    seen: set[int] = set()
    ordered: list[Remembered] = []
    for path in paths:
        fresh = [row for row in path.rows if row.row not in seen]
        seen |= {row.row for row in fresh}
        ordered = fresh + ordered
    return ordered
