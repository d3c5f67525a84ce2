"""Settings of the managed server: memory, two free ports, and the neo4j.conf written before every start and import.

Ports are chosen once and stored, and chosen again if they are taken.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from kgedit.errors import GraphError
from kgedit.files import replace_file
from kgedit.graph.browser import browser_policy
from kgedit.machine import available_memory, parse_size

_NO_NETWORK = "0.0.0.0/0,::/0"

_ALWAYS = f"""\
# Written by kgedit at every start; changes made here are lost.
dbms.usage_report.enabled=false
client.allow_telemetry=false

# LOAD CSV would read every file that this user can read, and fetch any address.
dbms.security.allow_csv_import_from_file_urls=false
internal.dbms.cypher_ip_blocklist={_NO_NETWORK}
server.directories.import=import

# The graph can be rebuilt from the snapshots, so the log is kept only for a recovery after a kill.
db.tx_log.preallocate=false
db.tx_log.rotation.size=16m
db.tx_log.rotation.retention_policy=keep_none
db.checkpoint=VOLUME
db.checkpoint.interval.volume=64m
"""

_SERVER = """\

server.default_listen_address=127.0.0.1
server.default_advertised_address=127.0.0.1
server.bolt.listen_address=127.0.0.1:{bolt}
server.bolt.advertised_address=127.0.0.1:{bolt}
server.http.listen_address=127.0.0.1:{http}
server.http.advertised_address=127.0.0.1:{http}
server.https.enabled=false
# Bolt would wait twice for five seconds without a request before it ends, though its connections are closed by then.
internal.dbms.bolt.netty_server_shutdown_quiet_period=0
server.memory.pagecache.size={page_cache}

# Neo4j Browser loads fonts, a changelog widget and statistics from other hosts, whatever the telemetry setting says.
# With this policy the page that the user's browser opens may only contact this server.
dbms.security.http_static_content_security_policy_header={policy}
browser.remote_content_hostname_whitelist=localhost
dbms.security.http_access_control_allow_origin=http://127.0.0.1:{http}
"""


def write_settings(folder: Path, ports: Ports | None = None, memory: Memory | None = None) -> None:
    """Write ``conf/neo4j.conf`` under a server's folder.

    Args:
        folder: Neo4j's home; its ``conf`` exists.
        ports: Ports of the server; None means the import tool, which does not listen.
        memory: Memory of the server; None means the import tool.
    """
    text = _ALWAYS
    if ports is not None and memory is not None:
        text += _SERVER.format(
            bolt=ports.bolt,
            http=ports.http,
            page_cache=memory.page_cache,
            policy=browser_policy(str(ports.bolt)),
        )
    (folder / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")


_MEGABYTE = 1024 * 1024
_GIGABYTE = 1024 * _MEGABYTE


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one server, in bytes.

    Attributes:
        heap: Java heap, for transactions and query results.
        page_cache: Cache of the store's pages, outside the heap.
        bulk_import: Limit of the import tool outside the heap.
    """

    heap: int
    page_cache: int
    bulk_import: int


def plan_memory(available: int | None = None, *, store_bytes: int = 0) -> Memory:
    """Choose the memory by the size of the graph, leaving room for a model and the servers of other homes.

    The heap is an eighth of the memory, at least 1 GB and at most 4 GB (a query over a whole graph of millions of
    facts needs 1 GB). The page cache is twice the store, because deltas let it grow. Neo4j allocates it page by page,
    so a small graph does not fill it. KGEDIT_GRAPH_HEAP and KGEDIT_GRAPH_PAGECACHE ("2g", "512m") override both.

    Args:
        available: Available bytes; None means the machine's memory.
        store_bytes: Size of the graph on disk.

    Raises:
        GraphError: if an override is not a size.
    """
    available = available or available_memory()
    heap = _between(_GIGABYTE, available // 8, 4 * _GIGABYTE)
    page_cache = _between(256 * _MEGABYTE, 2 * store_bytes, available // 4)
    return Memory(
        # A machine with less than 2 GB keeps half of it.
        heap=_from_environment("KGEDIT_GRAPH_HEAP") or min(heap, available // 2),
        page_cache=_from_environment("KGEDIT_GRAPH_PAGECACHE") or min(page_cache, available // 4),
        bulk_import=_from_environment("KGEDIT_GRAPH_PAGECACHE") or max(256 * _MEGABYTE, available // 4),
    )


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        return parse_size(text)
    except ValueError as error:
        raise GraphError(f"{name} is '{text}', which is not a size. Set it to a number with k, m or g: 2g") from error


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))


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
    chosen = _free_ports()
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


def _free_ports() -> Ports:
    probes = (_socket(), _socket())
    try:
        # Both are bound before either is released; otherwise the system could return the same port twice.
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return Ports(*(probe.getsockname()[1] for probe in probes))
    finally:
        for probe in probes:
            probe.close()


def _socket() -> socket.socket:
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Java's server sockets do the same: the remains of closed connections do not block a port.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return probe
