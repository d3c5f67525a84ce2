"""``kgedit graph start --idle-stop``: parses the time that a server may run without clients, and starts its watcher."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from kgedit.errors import GraphError
from kgedit.graph.managed.processes import end_process, start_detached

_VARIABLE = "KGEDIT_GRAPH_IDLE_STOP"
_UNITS = {"s": 1, "m": 60, "h": 3600}
WATCHER = "kgedit.graph.managed.idle_watcher"
"""Module run by the watcher process."""


def parse_idle_stop(text: str, source: str) -> float:
    """Parse "30m", "90s" or "2h" to seconds; "off" is 0.

    Args:
        text: The text.
        source: Option or variable that it came from, for the message.

    Raises:
        GraphError: if it is not a time.
    """
    found = re.fullmatch(r"(\d{1,6})([smh])", text.strip().lower())
    if text.strip().lower() == "off":
        return 0.0
    if found is None or int(found.group(1)) == 0:
        raise GraphError(f"{source} is '{text}', which is not a time. Give a number with s, m or h (30m), or off.")
    return float(int(found.group(1)) * _UNITS[found.group(2)])


def idle_stop_from_environment() -> float:
    """KGEDIT_GRAPH_IDLE_STOP in seconds; 0 if it is not set.

    Raises:
        GraphError: if it is not a time.
    """
    return parse_idle_stop(os.environ.get(_VARIABLE) or "off", _VARIABLE)


def start_watcher(folder: Path, pid: int, seconds: float) -> None:
    """Start the watcher of a server; ends a running watcher first.

    Args:
        folder: The server's folder, ``neo4j`` in a home.
        pid: The server's process id.
        seconds: Time without a client after which the server is stopped; 0 means no watcher.
    """
    pid_file = folder / "idle-stop.pid"
    arguments = ["-m", WATCHER, str(folder.parent), str(pid), str(seconds)]
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
