"""How much memory the managed server may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import GraphError
from kgedit.graph.managed.memory import _control_group_limits, parse_size, plan_memory

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


@pytest.mark.parametrize(("text", "size"), [("512m", 512 * 1024**2), ("2G", 2 * GIGABYTE), ("1gb", GIGABYTE), ("7", 7)])
def test_sizes_are_read_as_java_writes_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("line", "file", "limit"),
    [
        ("0::/job/step\n", "job/memory.max", "2147483648\n"),
        ("5:cpu:/x\n4:memory:/job\n", "memory/job/memory.limit_in_bytes", "2147483648\n"),
    ],
    ids=["version 2, limit on the group around", "version 1"],
)
def test_the_limit_of_a_container_is_found(tmp_path: Path, line: str, file: str, limit: str) -> None:
    groups, root = tmp_path / "groups", tmp_path / "root"
    groups.write_text(line, encoding="utf-8")
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text(limit, encoding="utf-8")
    (root / "memory.max").write_text("max\n", encoding="utf-8")
    assert _control_group_limits(root, groups) == [2 * GIGABYTE]
