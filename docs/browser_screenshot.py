"""Draws the picture of Neo4j Browser in docs/: opens it as a reader would, runs a query, saves what is to be seen.

    pip install playwright       # and a Chromium: apt-get install chromium, or playwright install chromium
    python docs/browser_screenshot.py 'MATCH (a:Term {id: "Q9617"})-[c:CLAIM]->(b) RETURN a, c, b' docs/browser.png

The graph is the one of $KGEDIT_HOME; its server is started if need be, and Browser gets kgedit's style from it.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from kgedit.graph.address import Address
from kgedit.graph.connection import find_address
from kgedit.resources import home

_MILLISECONDS_TO_SETTLE = 6000  # the drawing moves until its forces are in balance
_MILLISECONDS_TO_ZOOM = 1500


def main() -> None:
    """Read the arguments, take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("query", help="Cypher that returns nodes and relationships")
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="its binary; default: the one on PATH")
    parser.add_argument("--size", default="1400x900", help="of the window; default 1400x900")
    arguments = parser.parse_args()
    width, height = (int(side) for side in arguments.size.split("x"))
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start as root, which is who one is in most containers.
        chromium = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": width, "height": height}, device_scale_factor=1.5)
        show(page, find_address(home()), arguments.query)
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=arguments.picture)
        chromium.close()


def show(page: Page, address: Address, query: str) -> None:
    """Connect Browser to an address, run a query there and give its drawing the whole window."""
    url = address.browser_page(query)
    if url is None:
        raise SystemExit(f"No Neo4j Browser is known for {address.uri}; unset KGEDIT_GRAPH_URI.")
    page.goto(url)
    page.get_by_test_id("password").fill(address.password)
    page.get_by_test_id("connect").click()
    page.get_by_text("You are connected as user").wait_for()
    page.get_by_test_id("editor-Run").click()
    drawn = page.get_by_test_id("frame").filter(has=page.locator("svg .node")).first
    drawn.locator("svg .node").first.wait_for()
    drawn.get_by_title("Fullscreen").click()
    page.wait_for_timeout(_MILLISECONDS_TO_SETTLE)
    drawn.get_by_label("zoom-to-fit").click()
    page.wait_for_timeout(_MILLISECONDS_TO_ZOOM)


if __name__ == "__main__":
    main()
