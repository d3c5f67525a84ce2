"""Cores and memory that this process may use, within its control group."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


def usable_cores() -> int:
    """Number of cores on which this process may run; a job scheduler may grant fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """Memory of the machine in bytes, or the lowest limit of the control groups around this process if lower."""
    return min([psutil.virtual_memory().total, *_control_group_limits()])


def parse_size(text: str) -> int:
    """Parse "512m", "2G" or a plain number to bytes.

    Raises:
        ValueError: if it is not a size.
    """
    found = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    if found is None or int(found.group(1)) == 0:
        raise ValueError(text)
    return int(found.group(1)) * _UNITS.get(found.group(2), 1)


@contextmanager
def freed_memory_returned() -> Iterator[None]:
    """Make Arrow and glibc return large blocks to the system as soon as they are freed.

    Arrow's own pool keeps what was freed, and glibc raises its thresholds with each large block that is freed, so that
    it keeps the next ones, up to 32 MB each. Without glibc, only Arrow's pool is replaced.
    """
    import pyarrow as pa

    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    _set_thresholds(_LARGE)
    try:
        yield
    finally:
        _set_thresholds(_GREATEST_THRESHOLD)
        pa.set_memory_pool(pool)


_LARGE = 16 * 1024**2
"""Bytes of blocks that are returned; a block of the dump has half as many. The system clears fresh memory page by page:
with 4 MB a load takes 7 % longer, and with glibc's 128 KB, which most columns of a block exceed, a quarter more again.
"""

_GREATEST_THRESHOLD = 32 * 1024**2
"""The most to which it raises them, as in a process that has freed large blocks."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def _set_thresholds(size: int) -> None:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return  # macOS and Windows have other allocators
    mallopt(_M_MMAP_THRESHOLD, size)
    mallopt(_M_TRIM_THRESHOLD, 2 * size)


def _control_group_limits(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> list[int]:
    """Limits of this process's control group and all enclosing ones (version 2 and version 1); empty without any."""
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
