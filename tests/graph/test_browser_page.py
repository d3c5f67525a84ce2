"""Neo4j Browser in a real browser: it connects to its server and contacts no other host."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect
from world.chromium import open_chromium

from kgedit.graph.managed.server import ManagedServer

pytestmark = [pytest.mark.graph, pytest.mark.browser]


@contextmanager
def recording_proxy() -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy that reaches nothing; yields its address and the first line of every request to it."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    asked.append(client.recv(4096).partition(b"\r\n")[0].decode("latin-1"))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked


def test_browser_connects_and_contacts_no_other_host(server: ManagedServer) -> None:
    address = server.start()
    # Chromium asks a proxy for every host but this machine.
    with recording_proxy() as (proxy, asked), open_chromium() as browser:
        page = browser.new_context(proxy={"server": proxy, "bypass": "127.0.0.1,localhost"}).new_page()
        page.goto(address.browser_page("RETURN 'shown' AS answer") or "")
        page.locator("input[type=password]").fill(address.password)
        page.locator("input[type=password]").press("Enter")
        expect(page.get_by_text("You are now targeting")).to_be_visible(timeout=60_000)
        assert [line for line in asked if "google.com" not in line.split(" ")[1]] == []
