"""Pages in a real browser: widths, themes, search, links, keys, print, hostile labels. No page makes a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect
from world.hostile import HOSTILE

pytestmark = pytest.mark.browser

Opens = Callable[..., Page]

GROUND = "getComputedStyle(document.body).backgroundColor"
OVERFLOWING = """() => [...document.querySelectorAll('main *')]
  .filter((one) => !one.closest('.scroll,pre,.rail,.sr,.compare thead'))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("width", [480, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("made", ["report_file", "changes_file"])
def test_pages_open_at_both_widths_in_both_themes(
    request: pytest.FixtureRequest, open_page: Opens, made: str, scheme: str, width: int
) -> None:
    """No complaint on the console, no request, nothing beyond the edge, and the theme that the system prefers."""
    page = open_page(request.getfixturevalue(made), width=width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate(GROUND) == {"light": "rgb(252, 252, 251)", "dark": "rgb(21, 23, 26)"}[scheme]


def test_the_theme_can_be_chosen_and_is_remembered(open_page: Opens, report_file: Path) -> None:
    page = open_page(report_file, color_scheme="light")
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("body")).to_have_css("background-color", "rgb(21, 23, 26)")
    page.reload()
    expect(page.locator("body")).to_have_css("background-color", "rgb(21, 23, 26)")


def test_a_search_filters_the_answers_and_stands_in_the_address(open_page: Opens, report_file: Path) -> None:
    page = open_page(report_file)
    assert page.locator("#counted").inner_text() == "48 of 48 answers"
    page.keyboard.press("/")
    page.keyboard.type("town 11")
    expect(page.locator("#counted")).to_have_text("4 of 48 answers")
    expect(page.locator("#list .row")).to_have_count(4)
    expect(page).to_have_url(re.compile(r"q=town\+11"))
    page.get_by_label("Search").fill("nowhere")
    expect(page.locator("#counted")).to_have_text("No answer fits the search.")
    page.keyboard.press("Escape")
    expect(page.locator("#counted")).to_have_text("48 of 48 answers")


def test_outcomes_filter_and_their_counts_follow_the_other_filters(open_page: Opens, report_file: Path) -> None:
    """Of twelve updates rag has six right and ft_m three; locality is the same except for every fourth town."""
    page = open_page(report_file)
    chips = [chip.text_content() or "" for chip in page.locator(".chip").all()]
    counts = {chip.rstrip("0123456789,"): int(re.findall(r"\d+$", chip)[0]) for chip in chips}
    assert counts["All"] == 48
    assert counts["Unrelated, changed"] == 6
    assert counts["Unrelated, kept"] == 18
    page.get_by_label("Run", exact=True).select_option(label="ft_m")
    page.locator(".chip", has_text="Unrelated, changed").click()
    expect(page.locator("#counted")).to_have_text("3 of 48 answers")
    expect(page).to_have_url(re.compile("f=changed"))
    expect(page).to_have_url(re.compile("run=ft_m"))


def test_keys_move_through_the_answers_and_each_has_an_address(open_page: Opens, report_file: Path) -> None:
    page = open_page(report_file)
    third = page.locator("#list-2 p").first.inner_text()
    page.locator("#list").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    expect(page.locator("#list-2")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#detail h3")).to_have_text(third)
    other = open_page(report_file, address=page.evaluate("location.hash"))
    expect(other.locator("#detail h3")).to_have_text(third)
    expect(other.locator(".row[aria-selected=true] p").first).to_have_text(third)
    page.keyboard.press("End")
    expect(page.locator("#detail h3")).not_to_have_text(third)


def test_an_answer_is_shown_with_everything_that_belongs_to_it(open_page: Opens, report_file: Path) -> None:
    """The update of town 2 under rag, which was right: before, after, target, old answer, retrieved fact, prompt."""
    page = open_page(report_file, address="#a=rag|wild|update|20211230_20221230|Q102:P54:Q902|0")
    detail = page.locator("#detail").inner_text()
    for said in (
        "No idea",
        "New Town 2",
        "Old Town 2",
        "this case",
        "Q: Who leads Town 2?\nA:",
        "✓ right",
        "100 % of the tokens",
    ):
        assert said in detail, said
    assert page.locator("#detail a").first.get_attribute("href") == "https://www.wikidata.org/wiki/Q102"
    page.locator("#detail .linklike").first.click()
    expect(page).to_have_url(re.compile("a=.*ft_m"))


def test_a_link_to_no_answer_says_so(open_page: Opens, report_file: Path) -> None:
    page = open_page(report_file, address="#a=rag|wild|update|x|Q1|0")
    assert "No answer of this page has the address" in page.locator("#detail").inner_text()


def test_answers_of_runs_of_one_name_that_no_metric_judges_are_called_so_and_filtered(
    open_page: Opens, free_text_file: Path
) -> None:
    page = open_page(free_text_file)
    badges = page.locator("#list .outcome")
    expect(badges.first).to_have_text("not judged")
    assert set(badges.all_text_contents()) <= {"not judged", "= kept", "≠ changed"}
    expect(badges.first).to_have_class(re.compile("role-muted"))
    expect(page.locator(".chip", has_text=re.compile("^Not judged"))).to_have_text("Not judged16")
    page.get_by_label("Run", exact=True).select_option(index=2)
    expect(page.locator("#counted")).to_have_text("8 of 16 answers")
    expect(page.locator("#list .under").first).to_contain_text("seed 1")
    page.locator("#list-0").click()
    expect(page).to_have_url(re.compile("a=ft_m%7E2"))


def test_without_scripts_verdict_charts_and_tables_are_there(open_page: Opens, report_file: Path) -> None:
    page = open_page(report_file, ready=False, java_script_enabled=False)
    expect(page.locator(".lead").first).to_be_visible()
    expect(page.locator(".compare tbody tr").first).to_be_visible()
    expect(page.locator("#asking svg").first).to_be_visible()


def test_print_is_light_and_leaves_controls_out(open_page: Opens, report_file: Path) -> None:
    page = open_page(report_file, color_scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.locator(".rail")).to_be_hidden()
    expect(page.locator("#list")).to_be_hidden()
    expect(page.locator("#detail h3")).to_be_visible()


def test_cards_are_searched_filtered_and_linked(open_page: Opens, changes_file: Path) -> None:
    page = open_page(changes_file)
    assert page.locator("#counted").inner_text() == "10 of 10 cases"
    page.get_by_label("Search cases").fill("town 7")
    expect(page.locator("#counted")).to_have_text("1 of 10 cases")
    page.locator("#cards summary").click()
    inside = page.locator("#cards .inside")
    for said in ("Who leads Town 7?", "Two-hop chain", "Locality probe"):
        expect(inside).to_contain_text(said)
    expect(page).to_have_url(re.compile(r"[#&]c="))
    linked = open_page(changes_file, address="#c=" + re.findall(r"[#&]c=([^&]+)", page.url)[0])
    expect(linked.locator("#cards details[open]")).to_have_text([re.compile("Town 7")])


def test_a_card_links_to_wikidata_and_to_the_query_in_neo4j_browser(open_page: Opens, changes_file: Path) -> None:
    page = open_page(changes_file)
    page.locator("#cards summary").first.click()
    # The page fills a card in its toggle event, which comes after the click.
    expect(page.locator("#cards .inside")).to_be_visible()
    links = [link.get_attribute("href") or "" for link in page.locator("#cards .inside a").all()]
    assert any(re.fullmatch(r"https://www\.wikidata\.org/wiki/Q\d+", link) for link in links)
    (query,) = [unquote(link) for link in links if link.startswith("http://localhost:7474/browser/?cmd=edit&arg=")]
    assert re.search(r"MATCH path = \(item:Item \{id: 'Q10\d'\}\)", query)
    assert "20200101 < f.since <= 20210101" in query


def test_a_dropped_change_tells_its_reason(open_page: Opens, changes_file: Path) -> None:
    page = open_page(changes_file)
    assert page.locator("#why-counted").inner_text() == "12 of 12 dropped changes"
    page.get_by_label("Search dropped changes").fill("town 3")
    expect(page.locator("#why-counted")).to_have_text("1 of 12 dropped changes")
    expect(page.locator("#why-rows")).to_contain_text("a reason as long as the longest")
    page.get_by_label("Search dropped changes").fill("")
    expect(page.locator("#why-counted")).to_have_text("12 of 12 dropped changes")
    page.locator("#reasons .chip", has_text="not entity to entity").click()
    expect(page.locator("#why-counted")).to_have_text("6 of 12 dropped changes")


def test_hostile_labels_are_text_in_every_answer(open_page: Opens, hostile_report: Path) -> None:
    page = open_page(hostile_report)
    for index in range(page.locator("#list .row").count()):
        row = page.locator(f"#list-{index}")
        row.scroll_into_view_if_needed()  # before the click, so that no scrolling comes between its press and release
        row.click()
        expect(row).to_have_attribute("aria-selected", "true")
        shown = page.locator("#detail h3").inner_text()
        assert any(_shown(label) in shown for label in HOSTILE), shown
    _assert_harmless(page)


def test_hostile_labels_are_text_in_every_card(open_page: Opens, hostile_changes: Path) -> None:
    page = open_page(hostile_changes)
    cards = page.locator("#cards summary")
    for index in range(cards.count()):
        cards.nth(index).click()
        expect(page.locator("#cards .inside")).to_have_count(index + 1)
    said = page.locator("#cards").inner_text() + page.locator("#why-rows").inner_text()
    for label in HOSTILE:
        assert _shown(label) in said, label
    _assert_harmless(page)


def _shown(label: str) -> str:
    return label.split("\u2028", maxsplit=1)[0]


def _assert_harmless(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("#injected").count() == 0
    assert page.locator("img").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0
