"""Plans the server's memory from what the machine or the container has."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kgedit.errors import GraphError
from kgedit.machine import available_memory, parse_size

_MEGABYTE = 1024 * 1024
_GIGABYTE = 1024 * _MEGABYTE


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one server, in bytes.

    Attributes:
        heap: Java heap, for transactions and query results.
        page_cache: Cache of the store's pages, outside the heap.
        bulk_import: Limit of the import tool outside the heap.
    """

    heap: int
    page_cache: int
    bulk_import: int


def plan_memory(available: int | None = None, *, store_bytes: int = 0) -> Memory:
    """Choose the memory by the size of the graph, leaving room for a model and the servers of other homes.

    The heap is an eighth of the memory, at least 1 GB and at most 4 GB (a query over a whole graph of millions of
    facts needs 1 GB). The page cache is twice the store, because deltas let it grow. Neo4j allocates it page by page,
    so a small graph does not fill it. KGEDIT_GRAPH_HEAP and KGEDIT_GRAPH_PAGECACHE ("2g", "512m") override both.

    Args:
        available: Available bytes; None means the machine's memory.
        store_bytes: Size of the graph on disk.

    Raises:
        GraphError: if an override is not a size.
    """
    available = available or available_memory()
    heap = _between(_GIGABYTE, available // 8, 4 * _GIGABYTE)
    page_cache = _between(256 * _MEGABYTE, 2 * store_bytes, available // 4)
    return Memory(
        # A machine with less than 2 GB keeps half of it.
        heap=_from_environment("KGEDIT_GRAPH_HEAP") or min(heap, available // 2),
        page_cache=_from_environment("KGEDIT_GRAPH_PAGECACHE") or min(page_cache, available // 4),
        bulk_import=_from_environment("KGEDIT_GRAPH_PAGECACHE") or max(256 * _MEGABYTE, available // 4),
    )


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
