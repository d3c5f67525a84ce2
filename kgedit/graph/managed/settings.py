"""Writes the managed server's neo4j.conf, before every start and every bulk import."""

from __future__ import annotations

from pathlib import Path

from kgedit.graph.browser import browser_policy, connect_commands
from kgedit.graph.managed.memory import Memory
from kgedit.graph.managed.ports import Ports

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
browser.post_connect_cmd={commands}

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
            commands=connect_commands(),
            policy=browser_policy(str(ports.bolt)),
        )
    (folder / "conf" / "neo4j.conf").write_text(text, encoding="utf-8")
