"""Neo4j Browser in a real browser: it connects to its server and contacts no other host."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Request, expect

from kgedit.graph.managed.server import ManagedServer

pytestmark = [pytest.mark.graph, pytest.mark.browser]


def test_browser_connects_and_contacts_no_other_host(server: ManagedServer, browser: Browser) -> None:
    """Chromium reports a request that the page's policy stopped as failed with "csp": it never left."""
    address, left, stopped = server.start(), [], []

    def ended(request: Request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            (stopped if request.failure == "csp" else left).append(request.url)

    page = browser.new_page()
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    page.goto(address.browser_page("RETURN 'shown' AS answer") or "")
    page.locator("input[type=password]").fill(address.password)
    page.locator("input[type=password]").press("Enter")
    expect(page.get_by_text("You are now targeting")).to_be_visible(timeout=60_000)
    page.close()
    assert left == []
    assert any("fonts.googleapis.com" in url for url in stopped), "it would contact others without the policy"
