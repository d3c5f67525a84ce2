"""What a piece of work costs a client and its graph server together: processor time, wall time, peak memory.

Processor time moves less than wall time on a shared machine. The server's share is read from /proc, so Linux only.
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
    """Seconds.

    Attributes:
        client: Processor time of this process and of children that have ended (import tool, workers).
        server: Processor time of the managed server.
        wall: Time on the clock.
    """

    client: float
    server: float
    wall: float

    @property
    def processor(self) -> float:
        """All processor time."""
        return self.client + self.server

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.client - other.client, self.server - other.server, self.wall - other.wall)


@dataclass(slots=True)
class Meter:
    """Measures pieces of work by name.

    Attributes:
        home: The home whose server counts.
        costs: What was measured: name -> one cost for each time it was done.
    """

    home: Path
    costs: dict[str, list[Cost]] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measure a block that succeeds."""
        pid, server = _server_seconds(self.home)
        client, begun = _client_seconds(), time.perf_counter()
        yield
        wall, client = time.perf_counter() - begun, _client_seconds() - client
        pid_now, server_now = _server_seconds(self.home)
        # A server that was started meanwhile has all its time from this block.
        server = server_now - (server if pid_now == pid else 0.0)
        self.costs.setdefault(name, []).append(Cost(client, server, wall))

    @contextmanager
    def calls_of(self, function: str, name: str) -> Iterator[None]:
        """Measure every call of a function within a block, whichever module of kgedit calls it.

        Args:
            function: "module:name", or several after one another with commas, of which the first that exists counts.
            name: Of the costs. If there is no such function they stay empty, and a line on stderr says so.
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
        """The sum of what was measured under a name; nothing if it was not."""
        costs = self.costs.get(name, [])
        return Cost(sum(c.client for c in costs), sum(c.server for c in costs), sum(c.wall for c in costs))

    def median(self, name: str) -> Cost:
        """The cost with the median processor time."""
        costs = sorted(self.costs[name], key=lambda cost: cost.processor)
        return costs[len(costs) // 2]


def peak_memory() -> int:
    """Bytes that this process had in memory at most.

    getrusage's ru_maxrss would not do: a child starts with its parent's.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def _client_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _server_seconds(home: Path) -> tuple[int | None, float]:
    """The server's process number and its processor time so far."""
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
    """Modules of kgedit that hold a function under some name."""
    loaded = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "kgedit"]
    return [(module, name) for module in loaded for name, value in list(vars(module).items()) if value is function]
