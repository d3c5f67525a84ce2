"""Cells of a notebook: run twice, shown, watched. Calls are plain ones; a kernel only shows what they return."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from world.small_runs import answer, write_run
from world.small_timestep import write_timestep

import kgedit
from kgedit.errors import TimestepError
from kgedit.runs.scoring import write_scores
from kgedit.sample.generate import write_world
from kgedit.verbs.live_progress import stage_line, step_line

DATES = ("2021-01-04", "2023-02-27")


def finished_run(folder: Path) -> kgedit.Run:
    write_scores(write_run(folder, [answer()]))
    return kgedit.read_run(folder)


@pytest.mark.slow
def test_cells_that_load_export_describe_and_report_can_be_run_twice(tmp_path: Path) -> None:
    *dumps, redirects = write_world(tmp_path / "sample")
    home, shown = kgedit.Home(tmp_path / "home"), []
    timestep = write_timestep(tmp_path / "timestep", towns=range(3))
    run = finished_run(tmp_path / "run")
    for _ in range(2):
        for dump, date in zip(dumps, DATES, strict=False):
            home.load_dump(dump, date, redirects=redirects, graph=False, workers=1)
        exported = home.export_timestep(*DATES, profile="wikifactdiff", known_facts=5)
        page = kgedit.describe_page(timestep.folder, html=tmp_path / "changes.html")
        report = kgedit.report([run], out=tmp_path / "report", html=tmp_path / "report.html")
        board = kgedit.leaderboard(run.folder, markdown=tmp_path / "board.md")
        shown.append((exported.sha256, page, report.files, board.files))
    assert shown[0] == shown[1]


def test_another_result_is_not_replaced_and_the_advice_is_an_argument(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(3))
    page = tmp_path / "changes.html"
    page.write_text("mine", encoding="utf-8")
    with pytest.raises(TimestepError, match=r"changes\.html already exists.* Replace it: overwrite=True$"):
        kgedit.describe_page(timestep.folder, html=page)
    assert page.read_text(encoding="utf-8") == "mine"
    run = finished_run(tmp_path / "run")
    (tmp_path / "report" / "tables").mkdir(parents=True)
    (tmp_path / "report" / "tables" / "mine.csv").touch()
    with pytest.raises(TimestepError, match=r"tables already exists, with other tables\. .*overwrite=True"):
        kgedit.report([run], out=tmp_path / "report")
    assert [path.name for path in (tmp_path / "report").rglob("*")] == ["tables", "mine.csv"]


def test_objects_show_themselves_in_a_line_and_as_html(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(4))
    run = finished_run(tmp_path / "run")
    for shown in (timestep, run, kgedit.report([run]), kgedit.leaderboard(run.folder), kgedit.Home(tmp_path / "home")):
        assert len(repr(shown)) < 300, repr(shown)[:300]
        assert "<table" in shown._repr_html_()
    assert len(repr(kgedit.Snapshot(tmp_path / "20210104", {"date": "2021-01-04", "counts": ["x" * 5000]}))) < 300


def test_folders_may_be_texts(tmp_path: Path) -> None:
    timestep = write_timestep(tmp_path / "timestep", towns=range(2))
    assert kgedit.Timestep.open(str(tmp_path / "timestep")) == timestep
    with pytest.raises(TimestepError, match="is not a stream"):
        kgedit.Stream.open(str(tmp_path / "timestep"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_is_rewritten_where_someone_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    clock = iter(range(100))
    monkeypatch.setattr("kgedit.verbs.live_progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    show: Any = stage_line()
    for done in (0, 1, 2, 2):
        show("edit", done, 2)
    step_line("Reading dump", 10, "lines")(10, 1234)
    assert terminal.getvalue().split("\r")[1:] == [
        "edit: 0%, 0",
        "edit: 50%, 1, about 1 s left",
        "edit: 100%, 2" + " " * 15 + "\n",
        "Reading dump: 100%, 1,234 lines\n",
    ]


def test_scripts_without_a_terminal_print_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # other tests of the worker may have imported it
    assert stage_line() is None
    step_line("Reading dump", 10, "lines")(10, 10)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())  # type: ignore[arg-type]
    assert stage_line() is not None
