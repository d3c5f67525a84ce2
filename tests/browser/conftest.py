"""A real browser with pages of runs and of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from world.hostile import HOSTILE
from world.page_runs import NAMES, write_page_run, write_page_timestep
from world.small_runs import SYNTHETIC, WILD

from kgedit.verbs.describe import describe_page
from kgedit.verbs.report import report

# Two workers and a graph server share two cores: five seconds, the default, can pass without a frame.
expect.set_options(timeout=30_000)


@dataclass
class Opened:
    """A page with what went wrong in it."""

    page: Page
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens a file or an address in a window and waits until it is ready; messages of the page fail the test."""
    contexts: list[BrowserContext] = []
    opened: list[Opened] = []

    def opens(path: Path | str, *, address: str = "", width: int = 1280, ready: bool = True, **options: Any) -> Page:
        begins = path.as_uri() if isinstance(path, Path) else path
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        opened.append(found)
        found.page.on("console", lambda said: found.complaints.append(f"console: {said.text}"))
        found.page.on("pageerror", lambda error: found.complaints.append(f"error: {error}"))
        found.page.on(
            "request",
            lambda asked: None if asked.url.startswith(begins) else found.complaints.append(f"asked: {asked.url}"),
        )
        found.page.goto(begins + address)
        if ready:
            found.page.wait_for_selector("html[data-ready]", state="attached", timeout=20_000)
        return found.page

    yield opens
    for context in contexts:
        context.close()
    assert [one.complaints for one in opened] == [[] for _ in opened]


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two comparable runs on twelve towns."""
    folder = tmp_path_factory.mktemp("report")
    runs = [
        write_page_run(folder / "rag", NAMES, right=2),
        write_page_run(folder / "ft_m", NAMES, method="ft_m", right=5),
    ]
    report(runs, html=folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="session")
def free_text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two runs in folders of one name, whose free answers no metric judges."""
    folder = tmp_path_factory.mktemp("free_text")
    presets = (SYNTHETIC, replace(WILD, metric="fluency"))
    runs = [
        write_page_run(folder / f"seed{seed}" / "ft_m", NAMES[:4], method="ft_m", presets=presets, seed=seed)
        for seed in (0, 1)
    ]
    report(runs, html=folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="session")
def changes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timestep of ten towns."""
    folder = tmp_path_factory.mktemp("changes")
    describe_page(write_page_timestep(folder / "20200101_20210101", NAMES), html=folder / "changes.html")
    return folder / "changes.html"


@pytest.fixture(scope="session")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report whose labels and answers are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    report([write_page_run(folder / "rag<b>", HOSTILE)], html=folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="session")
def hostile_changes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timestep whose labels are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    describe_page(write_page_timestep(folder / "20200101_20210101", HOSTILE), html=folder / "changes.html")
    return folder / "changes.html"
