"""The order in which found facts are read: the best path last, next to the question, each from its first hop on."""

from __future__ import annotations

from collections.abc import Sequence

from kgedit.graph_memory.findings import FoundPath, Remembered


def reading_order(paths: Sequence[FoundPath]) -> list[Remembered]:
    """Facts of paths that are given best first, every fact once."""
    told: set[int] = set()
    ordered: list[Remembered] = []
    for path in paths:
        fresh = [row for row in path.rows if row.row not in told]
        told |= {row.row for row in fresh}
        ordered = fresh + ordered
    return ordered
