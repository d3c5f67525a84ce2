"""Costs of work for a client and its graph server together: CPU time, wall time, peak memory.

CPU time varies less than wall time on a shared machine. The server's share is read from /proc, so this is Linux only.
"""

from __future__ import annotations

import functools
import importlib
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgedit.graph.managed.server import ManagedServer

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs in seconds.

    Attributes:
        client: CPU time of this process and of finished child processes (import tool, workers).
        server: CPU time of the managed server.
        wall: Wall-clock time.
    """

    client: float
    server: float
    wall: float

    @property
    def processor(self) -> float:
        """Total CPU time."""
        return self.client + self.server

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.client - other.client, self.server - other.server, self.wall - other.wall)


@dataclass(slots=True)
class Meter:
    """Measures blocks of work by name.

    Attributes:
        home: Home whose server is measured.
        costs: Measurements: name -> one cost per execution.
    """

    home: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measure a block; blocks that raise are not recorded."""
        pid, server = _server_seconds(self.home)
        client, begun = _client_seconds(), time.perf_counter()
        yield
        wall, client = time.perf_counter() - begun, _client_seconds() - client
        pid_now, server_now = _server_seconds(self.home)
        # If the server was started within this block, all of its time belongs to it.
        server = server_now - (server if pid_now == pid else 0.0)
        self.costs.setdefault(name, []).append(Cost(client, server, wall))

    @contextmanager
    def calls_of(self, function: str, name: str) -> Iterator[None]:
        """Measure every call of a function within a block, from whichever module of kgedit.

        Args:
            function: "module:name", or several separated by commas, of which the first existing one is used.
            name: Name of the costs. If no such function exists, they stay empty and a line on stderr reports it.
        """
        original = next(filter(None, map(_find, function.split(","))), None)
        if original is None:
            print(f"There is no {function}: '{name}' is not measured.", file=sys.stderr)
            yield
            return

        @functools.wraps(original)
        def measured(*args: Any, **kwargs: Any) -> Any:
            with self.measure(name):
                return original(*args, **kwargs)

        users = _users(original)
        for module, attribute in users:
            setattr(module, attribute, measured)
        try:
            yield
        finally:
            for module, attribute in users:
                setattr(module, attribute, original)

    def total(self, name: str) -> Cost:
        """Sum of the measurements with a name; zero if there are none."""
        costs = self.costs.get(name, [])
        return Cost(sum(c.client for c in costs), sum(c.server for c in costs), sum(c.wall for c in costs))

    def median(self, name: str) -> Cost:
        """Cost with the median CPU time."""
        costs = sorted(self.costs[name], key=lambda cost: cost.processor)
        return costs[len(costs) // 2]


def peak_memory() -> int:
    """Peak memory of this process in bytes.

    getrusage's ru_maxrss is unsuitable, because a child starts with its parent's value.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _client_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _server_seconds(home: Path) -> tuple[int | None, float]:
    """Process id of the server, and its CPU time so far."""
    pid = ManagedServer(home).pid()
    if pid is None:
        return None, 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return pid, (int(fields[11]) + int(fields[12])) / _TICKS


def _find(function: str) -> Callable[..., Any] | None:
    module, _, name = function.partition(":")
    try:
        found: Callable[..., Any] | None = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return None
    return found


def _users(function: Callable[..., Any]) -> list[tuple[Any, str]]:
    """Modules of kgedit that contain a function under the given name."""
    loaded = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "kgedit"]
    return [(module, name) for module in loaded for name, value in list(vars(module).items()) if value is function]
