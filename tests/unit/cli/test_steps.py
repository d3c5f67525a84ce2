"""Steps of long operations: reported to a listener, shown by the command, silent without a listener."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from world.small_timestep import write_timestep
from world.submitted_runs import add_hashes

from kgedit.cli import main, progress
from kgedit.progress import Advance, listening, step
from kgedit.verbs.live_progress import by_stage
from kgedit.verbs.publish import publish


def test_work_tells_its_steps_to_whoever_listens_and_to_nobody_else(tmp_path: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    timesteps = [add_hashes(write_timestep(tmp_path / "step", towns=range(2))).folder]
    with listening(lambda *said: reported.append(said)):
        publish(tmp_path / "one", timesteps)
    publish(tmp_path / "other", timesteps)
    step("heard by nobody", 0, 1)
    assert reported == [("writing questions", 0, 3), ("writing 20200101_20210101", 1, 3), ("writing metadata", 2, 3)]


def test_where_stderr_is_no_terminal_a_step_is_a_line_if_the_last_was_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_folder = add_hashes(write_timestep(tmp_path / "step", towns=range(2))).folder
    arguments = ["publish", str(tmp_path / "one"), "--timestep", str(step_folder)]
    assert "step 1 of 3" not in CliRunner().invoke(main, arguments).stderr
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    arguments[1] = str(tmp_path / "other")
    assert "Publishing: writing questions, step 1 of 3\n" in CliRunner().invoke(main, arguments).stderr


def test_on_a_terminal_one_bar_names_the_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.steps("Exporting"):
        step("finding changes", 1, 7)
    assert "Exporting: finding changes" in capsys.readouterr().err


def test_a_stage_of_one_unit_has_no_pace_and_others_name_their_unit() -> None:
    shown: list[tuple[str, int, str]] = []

    def add(title: str, total: int, unit: str) -> Advance:
        shown.append((title, total, unit))
        return lambda _done, _counted: None

    report = by_stage(add)
    report("load tiny", 0, 1)
    report("train tiny", 3, 18)
    report("train tiny", 4, 18)
    report("load tiny", 1, 1)
    report("evaluate before any edit", 0, 40)
    assert shown == [("train tiny", 18, "epochs"), ("evaluate before any edit", 40, "questions")]


def test_a_line_names_a_time_only_after_something_was_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter((0.0, 0.0, 50.0, 100.0, 100.0))
    # Of this module alone: threads that other tests leave behind ask for the time as well.
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with progress.bars() as add:
        update = add("edit", 40, "edits")
        for done in (0, 0, 10):
            update(done, done)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "edit: 0%, 0 edits"
    assert second.startswith("edit: 25%, 10 edits, ")
    assert second.endswith("s left")
