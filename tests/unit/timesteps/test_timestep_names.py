"""Timesteps by name and by dates, in a home."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_timestep import write_timestep

import kgedit
from kgedit.errors import TimestepError
from kgedit.resources import use_home
from kgedit.runs.spec import resolve
from kgedit.timesteps.timestep import Timestep, find_timestep, timesteps_folder

PAIR = "20210104_20230227"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEDIT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def _finished(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "timestep.json").write_text('{"timestep": "20210104_20230227"}', encoding="utf-8")
    return folder


def test_dates_mean_the_default_profile_or_the_only_other_one(home: Path) -> None:
    other = _finished(home / "timesteps" / f"{PAIR}_wikifactdiff")
    assert find_timestep("2021-01-04..2023-02-27").samefile(other)
    _finished(home / "timesteps" / f"{PAIR}_mine")
    with pytest.raises(TimestepError, match=rf"give one of {PAIR}_mine, {PAIR}_wikifactdiff"):
        find_timestep("2021-01-04..2023-02-27")
    default = _finished(home / "timesteps" / PAIR)
    assert find_timestep("20210104..20230227").samefile(default)


def test_a_folder_comes_before_a_name(home: Path) -> None:
    _finished(home / "timesteps" / PAIR)
    here = _finished(Path(PAIR))
    assert find_timestep(PAIR) == here
    assert Timestep.open(str(here)).folder == here


def test_a_run_by_name_is_the_same_run_as_by_folder(home: Path) -> None:
    write_timestep(home / "timesteps" / PAIR)
    specs = [
        resolve({"timesteps": [given], "model": "tiny", "method": "none"})
        for given in (PAIR, "2021-01-04..2023-02-27", f"home/timesteps/{PAIR}")
    ]
    assert [spec.timesteps for spec in specs] == [(f"home/timesteps/{PAIR}",)] * 3


def test_a_home_of_python_finds_its_own_timesteps(home: Path, tmp_path: Path) -> None:
    write_timestep(tmp_path / "other" / "timesteps" / PAIR)
    assert kgedit.Home("other").timestep("2021-01-04", "2023-02-27").folder.is_dir()
    with pytest.raises(TimestepError, match="There is no timestep in home/timesteps yet"):
        find_timestep(PAIR)
    with use_home("other"):
        assert find_timestep(PAIR) == Path(f"other/timesteps/{PAIR}")
    with pytest.raises(TimestepError, match=rf"Timesteps in other/timesteps: {PAIR}\."):
        kgedit.Home("other").timestep("2021-01-04", "2024-06-03")


def test_a_home_of_an_earlier_version_keeps_its_folder_of_timesteps(home: Path) -> None:
    _finished(home / "benchmark" / PAIR)
    assert find_timestep(PAIR).samefile(home / "benchmark" / PAIR)
    assert timesteps_folder(home) == home / "benchmark"
    (home / "timesteps").mkdir()
    assert timesteps_folder(home) == home / "timesteps"
