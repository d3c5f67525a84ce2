"""The managed server's settings: who may reach it, and whom its pages may reach."""

from __future__ import annotations

import re
from pathlib import Path

from kgedit.graph.managed.memory import Memory
from kgedit.graph.managed.ports import Ports
from kgedit.graph.managed.settings import write_settings


def settings(folder: Path) -> dict[str, str]:
    """What is written for a server at the ports 17687 and 17474."""
    (folder / "conf").mkdir()
    write_settings(folder, Ports(bolt=17687, http=17474), Memory(heap=2**30, page_cache=2**28, bulk_import=2**28))
    lines = (folder / "conf" / "neo4j.conf").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_browsers_page_may_contact_its_own_server_only(tmp_path: Path) -> None:
    found = settings(tmp_path)
    policy = found["dbms.security.http_static_content_security_policy_header"]
    hosts = set(re.findall(r"[\w.*-]+\.[\w.]+|localhost|https?:(?=[ ;])|wss?:(?=[ ;])", policy))
    assert hosts == {"127.0.0.1", "localhost"}
    assert "ws://127.0.0.1:17687" in policy
    assert "frame-ancestors 'none'" in policy
    assert found["browser.remote_content_hostname_whitelist"] == "localhost"
    assert found["client.allow_telemetry"] == "false"


def test_the_server_listens_at_this_machine_only_and_names_no_other_origin(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert {found[f"server.{kind}.listen_address"].partition(":")[0] for kind in ("bolt", "http")} == {"127.0.0.1"}
    assert found["dbms.security.http_access_control_allow_origin"] == "http://127.0.0.1:17474"
