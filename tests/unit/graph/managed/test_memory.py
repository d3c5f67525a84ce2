"""How much memory the managed server may take."""

from __future__ import annotations

import pytest

from kgedit.errors import GraphError
from kgedit.graph.managed.memory import plan_memory

GIGABYTE = 1024**3


def test_memory_is_what_the_graph_needs_within_bounds_and_is_overridden_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_HEAP", raising=False)
    monkeypatch.delenv("KGEDIT_GRAPH_PAGECACHE", raising=False)
    # A small store on a large machine takes little of it; a large one gets a page cache in which it fits.
    small, large = plan_memory(64 * GIGABYTE), plan_memory(64 * GIGABYTE, store_bytes=3 * GIGABYTE)
    assert (small.heap, small.page_cache) == (4 * GIGABYTE, GIGABYTE // 4)
    assert (large.heap, large.page_cache) == (4 * GIGABYTE, 6 * GIGABYTE)
    assert plan_memory(16 * GIGABYTE).heap == 2 * GIGABYTE
    assert plan_memory(4 * GIGABYTE).heap == GIGABYTE
    assert plan_memory(4 * GIGABYTE, store_bytes=3 * GIGABYTE).page_cache == GIGABYTE
    assert plan_memory(GIGABYTE).heap == GIGABYTE // 2
    monkeypatch.setenv("KGEDIT_GRAPH_HEAP", "3g")
    assert plan_memory(16 * GIGABYTE).heap == 3 * GIGABYTE
    monkeypatch.setenv("KGEDIT_GRAPH_HEAP", "much")
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_HEAP is 'much'"):
        plan_memory()
