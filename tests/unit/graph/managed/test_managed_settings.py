"""The managed server's settings: who may reach it, and whom its pages may reach."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from kgedit.errors import GraphError
from kgedit.graph.managed.settings import Memory, Ports, choose_ports, is_free, plan_memory, write_settings


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


GIGABYTE = 1024**3


def test_memory_is_what_the_graph_needs_within_bounds_and_is_overridden_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_HEAP", raising=False)
    monkeypatch.delenv("KGEDIT_GRAPH_PAGECACHE", raising=False)
    # A small store on a large machine takes little of it; a large one gets a page cache in which it fits.
    small, large = plan_memory(64 * GIGABYTE), plan_memory(64 * GIGABYTE, store_bytes=3 * GIGABYTE)
    assert (small.heap, small.page_cache) == (4 * GIGABYTE, GIGABYTE // 4)
    assert (large.heap, large.page_cache) == (4 * GIGABYTE, 6 * GIGABYTE)
    assert plan_memory(16 * GIGABYTE).heap == 2 * GIGABYTE
    assert plan_memory(4 * GIGABYTE).heap == GIGABYTE
    assert plan_memory(4 * GIGABYTE, store_bytes=3 * GIGABYTE).page_cache == GIGABYTE
    assert plan_memory(GIGABYTE).heap == GIGABYTE // 2
    monkeypatch.setenv("KGEDIT_GRAPH_HEAP", "3g")
    assert plan_memory(16 * GIGABYTE).heap == 3 * GIGABYTE
    monkeypatch.setenv("KGEDIT_GRAPH_HEAP", "much")
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_HEAP is 'much'"):
        plan_memory()


def test_ports_are_kept_while_they_are_free_and_chosen_again_when_taken(tmp_path: Path) -> None:
    kept = choose_ports(tmp_path / "ports.json")
    assert kept.bolt != kept.http
    assert choose_ports(tmp_path / "ports.json") == kept
    with socket.create_server(("127.0.0.1", kept.http)):
        assert not is_free(kept.http)
        other = choose_ports(tmp_path / "ports.json")
    assert other.http != kept.http
    assert Ports.read(tmp_path / "ports.json") == other


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bolt": 1}'])
def test_a_ports_file_that_is_broken_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text, encoding="utf-8")
    assert Ports.read(tmp_path / "ports.json") is None
