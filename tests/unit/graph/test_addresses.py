"""Where a graph answers, or does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgedit.errors import GraphError
from kgedit.graph.bolt import Address
from kgedit.graph.connection import Graph, external_address, find_address
from kgedit.graph.managed.server import ManagedServer


def test_an_address_hides_its_password_and_names_browsers_page() -> None:
    address = Address("bolt://127.0.0.1:7", "neo4j", "secret", browser_url="http://127.0.0.1:8/browser/")
    assert "secret" not in repr(address)
    assert address.browser_page() == "http://127.0.0.1:8/browser/?dbms=bolt://neo4j@127.0.0.1:7"
    assert (address.browser_page("MATCH (n)") or "").endswith("&cmd=edit&arg=MATCH%20%28n%29")
    assert Address("bolt://x", "neo4j", "").browser_page() is None


def test_the_page_of_the_private_server_names_no_server_because_browser_would_ask_for_the_password() -> None:
    page = "http://127.0.0.1:8/browser/"
    address = Address("bolt://127.0.0.1:7", "neo4j", "secret", browser_url=page, managed=True)
    assert address.browser_page() == page
    assert address.browser_page("MATCH (n)") == f"{page}?cmd=edit&arg=MATCH%20%28n%29"


def test_a_password_in_the_address_is_used_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", "bolt://me:s3cret@db.example:7687")
    for name in ("KGEDIT_GRAPH_USER", "KGEDIT_GRAPH_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    address = external_address()
    assert address is not None
    assert (address.uri, address.user, address.password) == ("bolt://db.example:7687", "me", "s3cret")
    assert "s3cret" not in repr(address)


def test_without_a_server_nothing_is_started_unless_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_URI", raising=False)
    with pytest.raises(GraphError, match="kgedit graph start"):
        find_address(tmp_path, start=False)
    status = ManagedServer(tmp_path).status()
    assert (status.running, status.pid, status.bolt, status.store_bytes) == (False, None, None, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "said"),
    [("bolt://127.0.0.1:1", "not answering at bolt://127.0.0.1:1"), ("http://127.0.0.1:1", "begins with bolt://")],
)
def test_an_address_where_nothing_answers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, said: str
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", uri)
    with pytest.raises(GraphError, match=said):
        Graph.open(tmp_path)
