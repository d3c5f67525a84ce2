"""Process that stops a managed server without clients; started by kgedit.graph.managed.processes.

The server is in use while another client is connected, or if one was connected between two checks: Neo4j numbers its
connections, so a closed one shows as a gap. The watcher watches one process and ends with it. It stops the server as
``kgedit graph stop`` does, under the same lock.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from kgedit.graph.bolt import Address, open_driver
from kgedit.graph.managed.processes import say
from kgedit.graph.managed.server import ManagedServer

_SECONDS_BETWEEN_CHECKS = 30.0
"""A check opens a connection and takes milliseconds; with this period a server stops at most half a minute late."""


class Clients:
    """The server's clients between checks."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._agent = f"kgedit-idle-stop/{os.getpid()}"
        self._last_number: int | None = None

    def seen(self) -> bool:
        """Whether another client is connected or was since the last check; also True if the server does not answer."""
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
    """Stop a server after some time without a client; returns when it has ended for any reason.

    Args:
        server: The server.
        pid: Its process id; a later process of the same home has a separate watcher, or none.
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
    """Entry point of ``python -m kgedit.graph.managed.idle_watcher HOME PID SECONDS``."""
    home, pid, seconds = sys.argv[1:]
    watch(ManagedServer(Path(home)), int(pid), float(seconds))


if __name__ == "__main__":
    main()
