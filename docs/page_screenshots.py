"""Takes the pictures of docs/pages.md and docs/explore.md: opens pages as a reader does, and saves what is seen.

make browser
export KGEDIT_HOME=demo-data
kgedit up --method ft_m --method grace --method rag
kgedit report demo-data/runs/* --html report.html
kgedit describe demo-data/timesteps/20210104_20230227 --html changes.html
kgedit leaderboard demo-data/runs --html leaderboard.html
python docs/page_screenshots.py report.html changes.html leaderboard.html docs/pages
python docs/page_screenshots.py --explore demo-data docs/pages
"""

from __future__ import annotations

import argparse
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from kgedit.verbs.explore import explore_server

_MILLISECONDS_TO_SETTLE = 500


@dataclass(frozen=True)
class Picture:
    """What is to be seen.

    Attributes:
        name: Of the file.
        of: Which of the pages.
        section: That the picture begins with; "" for the top of the page.
        scheme: Theme that the system prefers.
        width: Of the window.
        height: Of the window.
        address: State in the address, such as an opened case.
    """

    name: str
    of: Literal["report", "changes", "leaderboard", "explore"]
    section: str = ""
    scheme: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 1000
    address: str = ""


_CHANGES = "#from=20210104&to=20240603&relation=P6|P35|P286&c=Q183:P6"

PICTURES = (
    Picture("report", "report"),
    Picture("report-charts", "report", section="asking", height=1060),
    Picture("report-answers", "report", section="answers", scheme="dark", address="#f=forced"),
    Picture("report-small", "report", width=480, height=1100),
    Picture("changes", "changes"),
    Picture("changes-cases", "changes", section="cases", address="#c=Q11571:P54:Q482764", scheme="dark"),
    Picture("changes-small", "changes", section="cases", width=480, height=1100, address="#c=Q11571:P54:Q482764"),
    Picture("leaderboard", "leaderboard"),
    Picture("explore", "explore", height=1060, address="#item=Q183&from=20210104&to=20240603"),
    Picture("explore-changes", "explore", section="changes", address=_CHANGES, scheme="dark"),
    Picture("explore-small", "explore", section="changes", width=480, height=1100, address=_CHANGES),
)


def main() -> None:
    """Read the arguments, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "pages", type=Path, nargs="*", help="pages of kgedit report, describe and leaderboard, in this order"
    )
    parser.add_argument("--explore", type=Path, metavar="HOME", help="home to look at with kgedit explore")
    parser.add_argument("folder", type=Path, help="where the PNG files go")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="its binary; default: the one on PATH")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start as root, which is who one is in most containers.
        chromium = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        with _addresses(arguments.pages, arguments.explore) as addresses:
            for picture in PICTURES:
                if picture.of in addresses:
                    take(chromium, addresses[picture.of], picture, arguments.folder / f"{picture.name}.png")
        chromium.close()


@contextmanager
def _addresses(pages: Sequence[Path], home: Path | None) -> Iterator[dict[str, str]]:
    """Where the pages are, by what they are of; the live view is served meanwhile."""
    found = {
        name: page.absolute().as_uri() for name, page in zip(("report", "changes", "leaderboard"), pages, strict=False)
    }
    if home is None:
        yield found
        return
    served = explore_server(home)
    thread = threading.Thread(target=served.run)
    thread.start()
    yield found | {"explore": served.url}
    served.server.should_exit = True
    thread.join()


def take(browser: Browser, page_address: str, picture: Picture, target: Path) -> None:
    """Open a page, bring the section into sight, save the picture."""
    window = {"width": picture.width, "height": picture.height}
    page = browser.new_context(
        viewport=window, color_scheme=picture.scheme, device_scale_factor=1.25, reduced_motion="reduce"
    ).new_page()
    page.goto(page_address + picture.address)
    page.wait_for_selector("html[data-ready]", state="attached")
    if picture.section:
        page.locator(f"#{picture.section}").evaluate("section => section.scrollIntoView()")
    else:
        page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(_MILLISECONDS_TO_SETTLE)
    page.screenshot(path=target)
    page.context.close()


if __name__ == "__main__":
    main()
