"""`kgedit view` writes the page of runs, and opens it only where there is a desktop."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from world.small_runs import T1, WILD, answer, write_run

from kgedit.cli import formats, main
from kgedit.runs.scoring import write_scores


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    folders = []
    for method in ("ft_m", "rag"):
        answers = [answer(f"Q{number}:P6:Q9", after=after, of=WILD) for number in range(3) for after in (None, T1)]
        folders.append(write_run(tmp_path / method, answers, presets=(WILD,), method=method))
        write_scores(folders[-1])
    return folders


def test_the_page_is_written_to_the_home_and_its_path_printed(runs: list[Path], tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["view", str(runs[0])])
    assert shown.exit_code == 0, shown.output
    page = Path(shown.stdout.strip())
    assert page == tmp_path / "home/reports/ft_m/report.html"
    assert "ft_m" in page.read_text(encoding="utf-8")


def test_several_runs_have_a_page_together_and_the_same_command_replaces_it(runs: list[Path]) -> None:
    first, second = (CliRunner().invoke(main, ["view", *map(str, runs)]) for _ in range(2))
    assert first.stdout == second.stdout
    page = Path(first.stdout.strip()).read_text(encoding="utf-8")
    assert "ft_m" in page
    assert "rag" in page


def test_a_browser_opens_only_with_a_display_and_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(click, "launch", opened.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for display, terminal in (("", True), (":0", False), (":0", True)):
        monkeypatch.setenv("DISPLAY", display)
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        formats.open_in_browser(f"file:///{display}{terminal}")
    assert opened == ["file:///:0True"]
