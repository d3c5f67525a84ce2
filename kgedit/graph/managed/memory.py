"""How much memory the server gets, from what the machine or the container has."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from kgedit.errors import GraphError

_MEGABYTE = 1024 * 1024
_GIGABYTE = 1024 * _MEGABYTE
_UNITS = {"k": 1024, "m": _MEGABYTE, "g": _GIGABYTE}


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes for one server.

    Attributes:
        heap: Java heap: transactions, query results.
        page_cache: Cache of the store's pages, outside the heap.
        bulk_import: What the import tool may take outside the heap.
    """

    heap: int
    page_cache: int
    bulk_import: int


def plan_memory(available: int | None = None, *, store_bytes: int = 0) -> Memory:
    """Choose the memory by what a graph needs, so that a model and the servers of other homes fit beside it.

    The heap is an eighth of the memory, at least 1 GB and at most 4 GB (a query over a whole graph of millions of
    facts needs 1 GB). The page cache is twice the store, because deltas let it grow; Neo4j takes it page by page, so
    that a small graph does not fill it. KGEDIT_GRAPH_HEAP and KGEDIT_GRAPH_PAGECACHE ("2g", "512m")
    override.

    Args:
        available: Bytes that there are; None for those of the machine.
        store_bytes: Size of the graph on disk.

    Raises:
        GraphError: if an override is not a size.
    """
    available = available or available_memory()
    heap = _between(_GIGABYTE, available // 8, 4 * _GIGABYTE)
    page_cache = _between(256 * _MEGABYTE, 2 * store_bytes, available // 4)
    return Memory(
        # A machine of less than 2 GB keeps half of it.
        heap=_from_environment("KGEDIT_GRAPH_HEAP") or min(heap, available // 2),
        page_cache=_from_environment("KGEDIT_GRAPH_PAGECACHE") or min(page_cache, available // 4),
        bulk_import=_from_environment("KGEDIT_GRAPH_PAGECACHE") or max(256 * _MEGABYTE, available // 4),
    )


def available_memory() -> int:
    """Bytes of memory of the machine, or of the tightest control group around this process, if that is less."""
    return min([psutil.virtual_memory().total, *_control_group_limits()])


def parse_size(text: str) -> int:
    """Bytes of "512m", "2G" or a plain number.

    Raises:
        ValueError: if it is none of them.
    """
    found = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    if found is None or int(found.group(1)) == 0:
        raise ValueError(text)
    return int(found.group(1)) * _UNITS.get(found.group(2), 1)


def _control_group_limits(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> list[int]:
    """Limits of our control group and all those around it (version 2 and version 1); empty without any."""
    if not groups.is_file():
        return []
    limits = []
    for line in groups.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        mount = root / "memory" if controllers else root
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        own = mount / path.lstrip("/")
        for folder in [own, *own.parents]:
            if folder.is_relative_to(mount) and (folder / name).is_file():
                limits.append((folder / name).read_text(encoding="utf-8").strip())
    return [int(limit) for limit in limits if limit.isdigit()]


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise GraphError(f"{name} is '{text}', which is not a size. Set it to a number with k, m or g: 2g") from error


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
