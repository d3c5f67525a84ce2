"""Metrics of a run in a tracker: what was logged is read back from trackio; a tracker that fails ends no run."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from world.small_models import save, small_model
from world.small_timestep import write_timestep

import kgedit
from kgedit.errors import MissingExtraError, UnknownNameError
from kgedit.registry import Registry
from kgedit.runs import tracking


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    save(small_model(), tmp_path / "model")
    write_timestep(tmp_path / "first", towns=range(4))
    return {
        "timesteps": [str(tmp_path / "first")],
        "model": str(tmp_path / "model"),
        "method": "ft_m",
        "settings": {"steps": 2},
        "presets": ["synthetic"],
        "checkpoint_every": 2,
        "evaluate_every": 2,
        "device": "cpu",
    }


def test_trackio_holds_settings_checkpoints_evaluations_and_the_end(
    tmp_path: Path, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("trackio")  # make test has it; make test-lowest cannot
    # trackio reads $TRACKIO_DIR when it is imported, and another test may have imported it.
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "trackio" and hasattr(module, "TRACKIO_DIR"):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "tracked")
    run = kgedit.run(spec, out=tmp_path / "run", track="trackio")
    from trackio.sqlite_storage import SQLiteStorage

    assert "trackio" not in capsys.readouterr().out.lower(), "stdout is for results"
    name = tracking.tracked_name(tmp_path / "run")
    logged = SQLiteStorage.get_logs("kgedit", name)
    assert SQLiteStorage.get_project_db_path("kgedit").is_relative_to(tmp_path)
    assert [row["step"] for row in logged] == [0, 2, 2, 4, 4, 4]
    edits = [row for row in logged if "edit/loss" in row]
    assert [row["step"] for row in edits] == [2, 4]
    final = next(score for score in run.pooled("own", "update", "synthetic").values() if score.main)
    score = f"synthetic/update/{final.metric}"
    assert [score in row for row in logged] == [True, False, True, False, True, False]
    assert logged[4][score] == logged[5][f"own/{score}"] == final.mean
    assert logged[5]["total/edits"] == 4
    config = SQLiteStorage.get_run_config("kgedit", name)
    assert (config["method"], config["settings"]["steps"], config["seed"]) == ("ft_m", 2, 0)
    record = json.loads((tmp_path / "run" / tracking.RECORD).read_text(encoding="utf-8"))
    assert record == {"tracker": "trackio", "project": "kgedit", "run": name, "failures": 0}
    kgedit.run(spec, out=tmp_path / "run", track="trackio")
    assert len(SQLiteStorage.get_logs("kgedit", name)) == len(logged), "a finished run logs nothing again"


class _Broken:
    """A tracker that takes the first metrics and then has no room."""

    def __init__(self) -> None:
        self.taken = 0

    def log(self, _metrics: Mapping[str, float], *, step: int) -> None:
        self.taken += 1
        if step:
            raise OSError("no room")

    def finish(self) -> None:
        raise OSError("no room")


BROKEN = _Broken()


def open_broken(_project: str, _name: str, _config: Mapping[str, Any]) -> _Broken:
    return BROKEN


def test_a_tracker_that_fails_ends_no_run_and_is_warned_of_once(
    tmp_path: Path, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "TRACKERS", Registry("tracker", {"broken": f"{__name__}:open_broken"}))
    with pytest.warns(UserWarning, match="broken took no metrics") as warned:
        run = kgedit.run(spec, out=tmp_path / "run", track="broken")
    assert len([one for one in warned if "broken" in str(one.message)]) == 1
    assert run.scores.edits.edits == 4
    record = json.loads((tmp_path / "run" / tracking.RECORD).read_text(encoding="utf-8"))
    assert (BROKEN.taken, record["failures"]) == (6, 6), "all but the first, and the end"


def test_an_unknown_tracker_is_told_before_a_model_is_loaded() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'trackio'"):
        kgedit.run({}, track="tracio")


def test_a_tracker_that_is_not_installed_names_its_extra_before_a_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "kgedit.runs.wandb_tracker", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kgedit\[wandb\]'"):
        kgedit.run({}, track="wandb")
