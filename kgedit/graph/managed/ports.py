"""The managed server's two ports: free ones, chosen once and stored, and chosen again if they are taken."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from kgedit.files import replace_file


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports on 127.0.0.1: Bolt, and HTTP for Neo4j Browser."""

    bolt: int
    http: int

    @classmethod
    def read(cls, path: Path) -> Ports | None:
        """Read the ports stored in a file; None without a valid file."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def choose_ports(path: Path) -> Ports:
    """Ports stored in a file if both are free; otherwise new ones, which are stored in it."""
    stored = Ports.read(path)
    if stored and is_free(stored.bolt) and is_free(stored.http):
        return stored
    chosen = Ports(*_free_ports(2))
    replace_file(path, json.dumps(asdict(chosen)) + "\n")
    return chosen


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with _socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_ports(count: int) -> list[int]:
    probes = [_socket() for _ in range(count)]
    try:
        # All are bound before any is released; otherwise the system could return the same port twice.
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _socket() -> socket.socket:
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Java's server sockets do the same: the remains of closed connections do not block a port.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return probe
