"""Takes the pictures of docs/pages.md: opens pages of runs and of changes as a reader does, and saves what is seen.

make browser
export KGEDIT_HOME=demo-data
kgedit up --method ft_m --method grace --method rag
kgedit report demo-data/runs/* --html report.html
kgedit describe demo-data/benchmark/20210104_20230227 --html changes.html
python docs/page_screenshots.py report.html changes.html docs/pages
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

_MILLISECONDS_TO_SETTLE = 500


@dataclass(frozen=True)
class Picture:
    """What is to be seen.

    Attributes:
        name: Of the file.
        of: Which of the two pages.
        section: That the picture begins with; "" for the top of the page.
        scheme: Theme that the system prefers.
        width: Of the window.
        height: Of the window.
        address: State in the address, such as an opened case.
    """

    name: str
    of: Literal["report", "changes"]
    section: str = ""
    scheme: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 1000
    address: str = ""


PICTURES = (
    Picture("report", "report"),
    Picture("report-charts", "report", section="asking", height=1060),
    Picture("report-answers", "report", section="answers", scheme="dark", address="#f=forced"),
    Picture("report-small", "report", width=480, height=1100),
    Picture("changes", "changes"),
    Picture("changes-cases", "changes", section="cases", address="#c=Q11571:P54:Q482764", scheme="dark"),
    Picture("changes-small", "changes", section="cases", width=480, height=1100, address="#c=Q11571:P54:Q482764"),
)


def main() -> None:
    """Read the arguments, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="page of kgedit report --html")
    parser.add_argument("changes", type=Path, help="page of kgedit describe --html")
    parser.add_argument("folder", type=Path, help="where the PNG files go")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="its binary; default: the one on PATH")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start as root, which is who one is in most containers.
        chromium = playwright.chromium.launch(executable_path=arguments.chromium, args=["--no-sandbox"])
        for picture in PICTURES:
            take(chromium, getattr(arguments, picture.of), picture, arguments.folder / f"{picture.name}.png")
        chromium.close()


def take(browser: Browser, page_file: Path, picture: Picture, target: Path) -> None:
    """Open a page, bring the section into sight, save the picture."""
    window = {"width": picture.width, "height": picture.height}
    page = browser.new_context(
        viewport=window, color_scheme=picture.scheme, device_scale_factor=1.25, reduced_motion="reduce"
    ).new_page()
    page.goto(page_file.absolute().as_uri() + picture.address)
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
