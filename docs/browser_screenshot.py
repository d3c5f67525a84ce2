"""Draws the picture of Neo4j Browser in docs/: opens what `kgedit browse` opens, saves what is shown.

    pip install playwright       # and a Chromium: apt-get install chromium, or playwright install chromium
    python docs/browser_screenshot.py --item Q183 --from 2021-01-04 --to 2023-02-27 docs/browser.png

The graph is the one of $KGEDIT_HOME; its server is started if need be, and Browser gets kgedit's style from it.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import kgedit

_MILLISECONDS_TO_SETTLE = 6000  # the drawing moves until its forces are in balance
_MILLISECONDS_TO_ZOOM = 1500


def main() -> None:
    """Read the arguments, take the picture."""
    arguments = read_arguments()
    width, height = (int(side) for side in arguments.size.split("x"))
    entry = kgedit.Home().browser_page(arguments.item, older=arguments.older, newer=arguments.newer).entry
    if entry is None:
        raise SystemExit("The graph is that of another server, which has no entry page; unset KGEDIT_GRAPH_URI.")
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start as root, which is who one is in most containers.
        chromium = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": width, "height": height}, device_scale_factor=arguments.scale)
        show(page, entry)
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=arguments.picture)
        chromium.close()


def read_arguments() -> argparse.Namespace:
    """The command line; --item, --from and --to as for `kgedit browse`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("--item", required=True, help="the item in the middle, such as Q183")
    parser.add_argument("--from", dest="older", help="older snapshot, YYYY-MM-DD; without dates: the item's facts")
    parser.add_argument("--to", dest="newer", help="newer snapshot")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="its binary; default: the one on PATH")
    parser.add_argument("--size", default="1300x740", help="of the window; default 1300x740")
    parser.add_argument(
        "--scale", type=float, default=1.5, help="pixels of the picture for one of the window; default 1.5"
    )
    return parser.parse_args()


def show(page: Page, entry: Path) -> None:
    """Open Browser and give its drawing the whole window."""
    page.goto(entry.as_uri())
    drawn = page.get_by_test_id("frame").filter(has=page.locator("svg .node"))
    drawn.locator("svg .node").first.wait_for()
    if page.get_by_test_id("frame").count() != 1:
        raise SystemExit("Browser shows other frames beside the picture; see SETTINGS in kgedit.graph.browser.")
    drawn.get_by_title("Fullscreen").click()
    page.wait_for_timeout(_MILLISECONDS_TO_SETTLE)
    drawn.get_by_label("zoom-to-fit").click()
    page.wait_for_timeout(_MILLISECONDS_TO_ZOOM)


if __name__ == "__main__":
    main()
