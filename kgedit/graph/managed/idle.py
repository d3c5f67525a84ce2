"""Stops a managed server without clients: a small process beside it, started with ``kgedit graph start --idle-stop``.

The server is in use while a client other than the watcher is connected, and whenever one was connected between two
checks: Neo4j numbers its connections, so one that came and went shows as a gap. The watcher watches one process number,
ends when that process ends, and stops it as ``kgedit graph stop`` does, under the same lock.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kgedit.errors import GraphError
from kgedit.graph.address import Address
from kgedit.graph.bolt import open_driver
from kgedit.graph.locks import say
from kgedit.graph.managed.processes import end_process, start_detached

if TYPE_CHECKING:
    from kgedit.graph.managed.server import ManagedServer

_VARIABLE = "KGEDIT_GRAPH_IDLE_STOP"
_UNITS = {"s": 1, "m": 60, "h": 3600}
_SECONDS_BETWEEN_CHECKS = 30.0


def parse_idle_stop(text: str, source: str) -> float:
    """Seconds of "30m", "90s", "2h"; 0 for "off".

    Args:
        text: As given.
        source: Option or variable that it came from, for the message.

    Raises:
        GraphError: if it is none of them.
    """
    found = re.fullmatch(r"(\d{1,6})([smh])", text.strip().lower())
    if text.strip().lower() == "off":
        return 0.0
    if found is None or int(found.group(1)) == 0:
        raise GraphError(f"{source} is '{text}', which is not a time. Give a number with s, m or h (30m), or off.")
    return float(int(found.group(1)) * _UNITS[found.group(2)])


def idle_stop_from_environment() -> float:
    """Seconds of KGEDIT_GRAPH_IDLE_STOP; 0 if it is not set.

    Raises:
        GraphError: if it is not a time.
    """
    return parse_idle_stop(os.environ.get(_VARIABLE) or "off", _VARIABLE)


def start_watcher(folder: Path, pid: int, seconds: float) -> None:
    """Start the watcher of a server; a running one is ended first.

    Args:
        folder: The server's folder, ``neo4j`` in a home.
        pid: The server's process.
        seconds: Time without a client after which it is stopped; 0 for no watcher.
    """
    pid_file = folder / "idle-stop.pid"
    arguments = ["-m", "kgedit.graph.managed.idle", str(folder.parent), str(pid), str(seconds)]
    end_process(pid_file, " ".join(arguments[:3]) + " ", patience=5.0)
    if seconds == 0:
        return
    package = str(Path(__file__).parents[3])
    found_by_python = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    start_detached(
        [sys.executable, *arguments],
        pid_file,
        log=folder / "logs" / "idle-stop.log",
        folder=folder,
        environment=os.environ | {"PYTHONPATH": found_by_python},
    )


class Clients:
    """The server's clients, from one check to the next."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._agent = f"kgedit-idle-stop/{os.getpid()}"
        self._last_number: int | None = None

    def seen(self) -> bool:
        """Whether someone else is connected, or was since the last check; True also if the server does not answer."""
        from neo4j.exceptions import DriverError, Neo4jError

        text = "CALL dbms.listConnections() YIELD connectionId, userAgent"
        try:
            with open_driver(self._address, user_agent=self._agent) as driver, driver.session() as session:
                found = [(str(row["connectionId"]), row["userAgent"]) for row in session.run(text)]
        except (DriverError, Neo4jError, OSError):
            return True
        own = [int(name.rpartition("-")[2]) for name, agent in found if agent == self._agent]
        number, last = max(own, default=0), self._last_number
        self._last_number = number
        return len(found) != 1 or last is None or number != last + 1


def watch(server: ManagedServer, pid: int, seconds: float) -> None:
    """Stop a server after some time without a client; return when it has ended for any reason.

    Args:
        server: Which server.
        pid: Its process; a later process of the same home has a watcher of its own, or none.
        seconds: Time without a client.
    """
    clients = Clients(server.address())
    between = min(seconds / 4, _SECONDS_BETWEEN_CHECKS)
    last_used = last_check = time.monotonic()
    while server.pid() == pid:
        time.sleep(min(between, 1.0))
        now = time.monotonic()
        if now - last_check < between:
            continue
        last_check = now
        if clients.seen():
            last_used = now
        elif now - last_used >= seconds:
            if server.stop_if(lambda: server.pid() == pid and not clients.seen()):
                say(f"Stopped after {seconds:.0f} s without a client.")
            else:
                last_used = time.monotonic()


def main() -> None:
    """``python -m kgedit.graph.managed.idle HOME PID SECONDS``."""
    from kgedit.graph.managed.server import ManagedServer

    home, pid, seconds = sys.argv[1:]
    watch(ManagedServer(Path(home)), int(pid), float(seconds))


if __name__ == "__main__":
    main()
