"""Timesteps by name and by dates, in a home."""

from __future__ import annotations

from pathlib import Path

import pytest
from world.small_timestep import write_timestep

import kgedit
from kgedit.benchmark.timestep import Timestep
from kgedit.benchmark.timestep_names import find_timestep
from kgedit.errors import BenchmarkError
from kgedit.resources import use_home
from kgedit.runs.spec import resolve

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
    other = _finished(home / "benchmark" / f"{PAIR}_wikifactdiff")
    assert find_timestep("2021-01-04..2023-02-27").samefile(other)
    _finished(home / "benchmark" / f"{PAIR}_mine")
    with pytest.raises(BenchmarkError, match=rf"give one of {PAIR}_mine, {PAIR}_wikifactdiff"):
        find_timestep("2021-01-04..2023-02-27")
    default = _finished(home / "benchmark" / PAIR)
    assert find_timestep("20210104..20230227").samefile(default)


def test_a_folder_comes_before_a_name(home: Path) -> None:
    _finished(home / "benchmark" / PAIR)
    here = _finished(Path(PAIR))
    assert find_timestep(PAIR) == here
    assert Timestep.open(str(here)).folder == here


def test_a_run_by_name_is_the_same_run_as_by_folder(home: Path) -> None:
    write_timestep(home / "benchmark" / PAIR)
    specs = [
        resolve({"timesteps": [given], "model": "tiny", "method": "none"})
        for given in (PAIR, "2021-01-04..2023-02-27", f"home/benchmark/{PAIR}")
    ]
    assert [spec.timesteps for spec in specs] == [(f"home/benchmark/{PAIR}",)] * 3


def test_a_home_of_python_finds_its_own_timesteps(home: Path, tmp_path: Path) -> None:
    write_timestep(tmp_path / "other" / "benchmark" / PAIR)
    assert kgedit.Home("other").timestep("2021-01-04", "2023-02-27").folder.is_dir()
    with pytest.raises(BenchmarkError, match="There is no timestep in home/benchmark yet"):
        find_timestep(PAIR)
    with use_home("other"):
        assert find_timestep(PAIR) == Path(f"other/benchmark/{PAIR}")
    with pytest.raises(BenchmarkError, match=rf"Timesteps in other/benchmark: {PAIR}\."):
        kgedit.Home("other").timestep("2021-01-04", "2024-06-03")
