"""Cores and memory that this process may use, within its control group."""

from __future__ import annotations

import os
import re
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
