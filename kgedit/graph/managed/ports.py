"""The managed server's two ports: free ones, chosen once and stored, chosen again if they are taken."""

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
        """The ports stored in a file; None without a valid file."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def choose_ports(path: Path) -> Ports:
    """The ports stored in a file, if both are free; else new ones, which are stored there."""
    stored = Ports.read(path)
    if stored and is_free(stored.bolt) and is_free(stored.http):
        return stored
    chosen = Ports(*_free_ports(2))
    replace_file(path, json.dumps(asdict(chosen)) + "\n")
    return chosen


def is_free(port: int) -> bool:
    """Whether a server could listen at this port of 127.0.0.1 now."""
    with _socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_ports(count: int) -> list[int]:
    probes = [_socket() for _ in range(count)]
    try:
        # All are bound before one is given back: else the system could name the same port twice.
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _socket() -> socket.socket:
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As Java's own server sockets do: the ends of old connections do not make a port taken.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return probe
