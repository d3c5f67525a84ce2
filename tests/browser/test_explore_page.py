"""The live view in a real browser: dates moved, names typed, histories by link, hostile labels, a timestep made."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect
from world.explored import write_explored
from world.hostile import HOSTILE

from kgedit.verbs.explore import explore_server

pytestmark = pytest.mark.browser

Opens = Callable[..., Page]

OVERFLOWING = """() => [...document.querySelectorAll('main *')]
  .filter((one) => !one.closest('.scroll,pre,.rail,.sr'))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.outerHTML.slice(0, 120))"""


TURNING = """() => [...document.querySelectorAll('main *')]
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.includes('\u202e')))
  .filter((one) => getComputedStyle(one).display.startsWith('inline'))
  .filter((one) => getComputedStyle(one).unicodeBidi !== 'isolate')
  .map((one) => one.outerHTML.slice(0, 120))"""
"""Elements within a line whose text has a right-to-left override that reaches beyond them."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server of three small snapshots, whose graph's server was started before."""
    home = write_explored(tmp_path_factory.mktemp("explored"))
    (home / "neo4j").mkdir()
    (home / "neo4j" / "password").write_text("secret", encoding="utf-8")
    (home / "neo4j" / "ports.json").write_text('{"bolt": 17687, "http": 17474}', encoding="utf-8")
    served = explore_server(home)
    thread = threading.Thread(target=served.run)
    thread.start()
    yield served.url
    served.server.should_exit = True
    thread.join(20)


@pytest.mark.parametrize(("width", "scheme"), [(480, "dark"), (1280, "light")])
def test_dates_are_moved_names_typed_and_an_item_opened(
    open_page: Opens, address: str, width: int, scheme: str
) -> None:
    page = open_page(address, width=width, color_scheme=scheme)
    expect(page.locator("#lead")).to_have_text("9 changes from 2023-02-27 to 2024-06-03.")
    page.get_by_label("Older snapshot").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#lead")).to_have_text("12 changes from 2021-01-04 to 2024-06-03.")
    page.get_by_label("Newer snapshot").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#lead")).to_have_text("13 changes from 2021-01-04 to 2023-02-27.")
    expect(page).to_have_url(re.compile("from=20210104&to=20230227"))
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    page.keyboard.type("old t")
    expect(page.locator("#found [role=option]")).to_have_text([re.compile("Arvika")])
    page.keyboard.press("Enter")
    expect(page.locator("#item h3")).to_have_text("Arvika")
    expect(page).to_have_url(re.compile("item=Q1"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []


def test_a_history_opens_by_its_address_and_its_changes_are_selected(open_page: Opens, address: str) -> None:
    page = open_page(address, address="#item=Q1&from=20210104&to=20230227&relation=P6&q=arv")
    expect(page.locator("#counted")).to_have_text("1 of 13 changes")
    leader = page.locator(".history tbody", has_text="P6")
    rows = [" ".join(row.split()) for row in leader.locator("tr").all_inner_texts()]
    assert rows == [
        "head P6",
        "Leader 21 since 2019-05-01 · statement ● fact another version another version",
        "Leader 21 since 2019-05-01 · until 2022-02-02 another version ○ not current ○ not current",
        "Leader 22 since 2022-02-02 – absent ● fact another version",
        "Leader 24 since 2022-02-02 – absent another version ● fact",
    ]
    links = [link.get_attribute("href") or "" for link in page.locator("#item a").all()]
    assert "https://www.wikidata.org/wiki/Q1#Q1%2411111111-2222-4333-8444-555555555555" in links
    assert "https://www.wikidata.org/w/index.php?oldid=12" in links
    browser = "http://127.0.0.1:17474/browser/?cmd=edit&arg="
    assert any(link.startswith(browser) and "Q1" in link for link in links)
    page.locator("#facets button", has_text="head").click()
    expect(page.locator("#counted")).to_have_text("3 of 13 changes")
    page.get_by_role("button", name="Select its changes").click()
    expect(page.locator("#selected .chip")).to_have_text(["Arvika✕"])
    expect(page.get_by_label("Select Arvika, people")).to_be_checked()
    page.get_by_label("Select Arvika, head").uncheck()
    expect(page.locator("#selected .chip")).to_have_text(["Arvika · people✕"])
    expect(page.get_by_label("Select Arvika, people")).to_be_checked()


def test_cards_stay_open_while_kinds_are_worked_out(open_page: Opens, address: str) -> None:
    """More cards than one answer of the server has, which get their kinds in place."""
    page = open_page(address, address="#from=20210104&to=20230227")
    answer = page.request.get(f"{address}api/changes?from=20210104&to=20230227").json()
    state = {"kinds": "running"}
    asked: list[tuple[int, int]] = []

    def reply(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        first, limit = (int(query[name][0]) for name in ("offset", "limit"))
        asked.append((first, limit))
        kind = {"kind": "update", "confidence": 0.9} if state["kinds"] == "done" else {}
        rows = [
            answer["rows"][0] | kind | {"subject": f"Q{number}"} for number in range(first, min(first + limit, 250))
        ]
        route.fulfill(json=answer | state | {"rows": rows, "found": 250, "total": 250})

    page.route("**/api/changes?*", reply)
    page.evaluate("() => { const wait = setTimeout; window.setTimeout = (act, ms) => wait(act, Math.min(ms, 150)); }")
    page.get_by_label("Search changes").fill("a")
    cards = page.locator("#cards .card")
    for count in range(30, 240, 30):
        expect(cards).to_have_count(count)
        page.locator("#more").click()
    expect(cards).to_have_count(240)
    for index in (5, 230):
        cards.nth(index).locator("summary").click()
        expect(cards.nth(index).locator(".inside")).to_be_visible()
    top = page.evaluate("scrollY")
    asked.clear()
    for _ in range(2):
        with page.expect_response("**/api/changes?*&limit=1&*"):
            pass
    assert set(asked) == {(0, 1)}
    state["kinds"] = "done"
    expect(cards.nth(239).locator(".tags")).to_contain_text("update at 0.90")
    assert asked[-2:] == [(0, 200), (200, 40)]
    expect(cards).to_have_count(240)
    expect(page.locator("#cards [open]")).to_have_count(2)
    expect(cards.nth(230).locator("summary")).to_be_focused()
    assert page.evaluate("scrollY") == top


def test_hostile_labels_are_text(open_page: Opens, address: str) -> None:
    page = open_page(address, address="#item=Q800&from=20210104&to=20230227")
    for opened, summary in enumerate(page.locator("#cards summary").all(), start=1):
        summary.click()
        expect(page.locator("#cards .inside")).to_have_count(opened)
    said = page.locator("#cards").inner_text()
    for label in HOSTILE:
        assert label.split("\u2028", maxsplit=1)[0] in said, label
    page.get_by_label("Find an item").fill("hacked")
    expect(page.locator("#found [role=option]").first).to_be_visible()
    page.locator("#cards input[type=checkbox]").nth(3).check()
    expect(page.locator("#selected .chip")).to_have_count(1)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#injected, img, a[href^='javascript']").count() == 0
    assert page.evaluate(TURNING) == [], "a label that turns the direction of writing turns its neighbours"


def test_what_was_selected_becomes_a_timestep(open_page: Opens, address: str) -> None:
    page = open_page(address, address="#from=20210104&to=20230227&relation=P6&act=replaced&q=arvika")
    page.get_by_label("Select Arvika, head").check()
    page.get_by_label("named").fill("arvika")
    page.get_by_label("profile").select_option("wikifactdiff")
    page.get_by_role("button", name="Make the timestep").click()
    task = page.locator("#tasks .task")
    expect(task).to_contain_text("Made", timeout=60_000)
    assert "1 selected, profile wikifactdiff" in task.inner_text()
    folder = task.locator(".meta").first.inner_text().removeprefix("Timestep: ")
    assert (Path(folder) / "timestep.json").is_file()
