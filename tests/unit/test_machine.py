"""Memory and cores that a process may use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from kgedit.machine import _control_group_limits, freed_memory_returned, parse_size, usable_cores

GIGABYTE = 1024**3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to cores")
def test_cores_are_those_that_the_process_is_bound_to() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert usable_cores() == len(before)


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


def test_arrow_has_its_own_pool_again_after_a_load_that_failed() -> None:
    before = pa.default_memory_pool().backend_name
    with suppress(KeyError), freed_memory_returned():
        assert pa.default_memory_pool().backend_name == "system"
        raise KeyError
    assert pa.default_memory_pool().backend_name == before
