"""The leaderboard's page in a real browser: both widths and themes, sorting, groups, hostile names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from world.hostile import HOSTILE
from world.page_runs import NAMES, write_page_run
from world.submitted_runs import write_hashed_timestep, write_submittable

from kgedit.verbs.publish import leaderboard, submit

pytestmark = pytest.mark.browser

Opens = Callable[..., Page]

LINKS = (HOSTILE[5], "https://example.org/report.html")
"""Addresses of the reports of two entries: anyone may have written them."""


@pytest.fixture(scope="module")
def board_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two submitted runs, and two of another group whose folders are named like markup."""
    folder = tmp_path_factory.mktemp("board")
    step = write_hashed_timestep(folder / "mayors")
    for method, right in (("memit", 10), ("ft_m", 2)):
        run = write_submittable(folder / method, step, method=method, right=right)
        submit(run, folder / "board", submitter=HOSTILE[1], date="2026-11-23", note=HOSTILE[0])
    for entry, address in zip(sorted((folder / "board" / "entries").glob("[a-z]*/entry.json")), LINKS, strict=True):
        content = json.loads(entry.read_bytes())
        content["statement"] |= {"report": address, "submitter": HOSTILE[-1]}
        entry.write_text(json.dumps(content), encoding="utf-8")
    for name, method in (("rag<b>", "rag"), ("ft", "ft_m")):
        write_page_run(folder / "runs" / name, NAMES, method=method, right=2 if method == "rag" else 5)
    leaderboard([folder / "board", folder / "runs"], html=folder / "board.html")
    return folder / "board.html"


def rows(page: Page) -> list[str]:
    return page.locator(".group:visible table.board tbody th[scope=row]").evaluate_all(
        "found => found.map((one) => one.firstChild.textContent)"
    )


@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_at_both_widths_in_both_themes(open_page: Opens, board_file: Path, scheme: str, width: int) -> None:
    page = open_page(board_file, width=width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".group:visible table.board").count() == 1


def test_columns_sort_and_the_address_holds_the_order(open_page: Opens, board_file: Path) -> None:
    page = open_page(board_file, address="#view=1.wild")
    first = rows(page)
    efficacy = page.locator("table.board:visible th[data-measure=efficacy]")
    efficacy.get_by_role("button").click()
    expect(efficacy).to_have_attribute("aria-sort", "ascending")
    assert rows(page) == [first[1], first[0], "unedited"]
    expect(page).to_have_url(re.compile("sort=efficacy"))
    again = open_page(board_file, address="#" + page.url.partition("#")[2])
    assert rows(again) == rows(page)
    assert again.locator("table.board:visible th[aria-sort=ascending]").inner_text().startswith("Efficacy")


def test_a_group_is_chosen_and_hostile_names_are_text(open_page: Opens, board_file: Path) -> None:
    page = open_page(board_file)
    shown = set()
    for value in page.locator("#view option").evaluate_all("found => found.map((one) => one.value)"):
        page.locator("#view").select_option(value)
        expect(page).to_have_url(re.compile(f"view={re.escape(value)}"))
        shown |= set(rows(page))
    assert {"memit", "ft_m", "rag", "unedited"} <= shown
    assert page.evaluate("window.hacked") is None
    assert page.locator("#runs dd", has_text=HOSTILE[0]).count() == 2
    assert page.locator("a[href^='javascript' i], a[href^='data' i], img").count() == 0
    addresses = page.locator("a").evaluate_all("found => found.map((one) => one.protocol)")
    assert set(addresses) <= {"file:", "https:"}
