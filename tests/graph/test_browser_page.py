"""Neo4j Browser in a real browser: it opens connected, draws changes, and contacts no other host."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Request, expect

import kgedit
from kgedit.graph.managed.server import ManagedServer

pytestmark = [pytest.mark.graph, pytest.mark.browser]


def test_browser_opens_connected_draws_a_changed_item_and_contacts_no_other_host(
    sample_home: Path, browser: Browser
) -> None:
    """Chromium reports a request that the page's policy stopped as failed with "csp": it never left."""
    opened = kgedit.Home(sample_home).browser_page()
    assert opened.entry is not None
    assert stat.S_IMODE(opened.entry.stat().st_mode) == 0o600
    left, stopped = [], []

    def ended(request: Request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            (stopped if request.failure == "csp" else left).append(request.url)

    page = browser.new_page()
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    page.goto(opened.entry.as_uri())
    drawn = page.get_by_test_id("frame").filter(has=page.locator("svg .node"))
    # Between the last two snapshots, Finland joined NATO and changed its president and its prime minister.
    for label in ("Finland", "NATO", "Sanna Marin"):
        expect(drawn.locator("svg .node").filter(has_text=label)).to_be_visible(timeout=60_000)
    expect(drawn.locator("svg .relationship").filter(has_text="since 2023")).to_have_count(2)
    expect(page.get_by_test_id("frame")).to_have_count(1)
    assert page.url == opened.url  # without the password
    page.close()
    assert left == []
    assert any("fonts.googleapis.com" in url for url in stopped), "it would contact others without the policy"


def test_browser_also_connects_with_the_printed_address_user_and_password(
    server: ManagedServer, browser: Browser
) -> None:
    address = server.start()
    page = browser.new_page()
    page.goto(address.browser_page("RETURN 'shown' AS answer") or "")
    page.get_by_test_id("username").fill(address.user)
    page.get_by_test_id("password").fill(address.password)
    page.get_by_test_id("connect").click()
    page.get_by_test_id("editor-Run").click()
    expect(page.get_by_test_id("frame").get_by_text("shown").first).to_be_visible(timeout=60_000)
    page.close()


def test_an_entry_with_another_password_saves_nothing(server: ManagedServer, browser: Browser) -> None:
    """A link on any page can open the entry page; what it saves, Browser would run at the next connection."""
    address = server.start()
    forged = {"user": address.user, "password": "guessed", "settings": {"initCmd": "MATCH (n) DETACH DELETE n"}}
    page = browser.new_page()
    page.goto(f"{address.browser_url}entry.html#{quote(json.dumps(forged))}")
    expect(page.get_by_text("the server does not accept the password")).to_be_visible()
    assert page.evaluate("localStorage.length") == 0
    page.close()
