"""A memory is updated from newer snapshots, says what changed, and can be rolled back."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kgedit.cli import main
from kgedit.errors import KgeditError
from kgedit.graph_memory.memory_file import previous_of, read_memory_file, roll_back, signature_of
from kgedit.sample.generate import write_world
from kgedit.verbs.load_dump import DumpOptions, is_loaded, load_dump
from kgedit.verbs.memory import build_memory, update_memory


@pytest.fixture
def dumps(tmp_path: Path) -> list[Path]:
    return [path for path in write_world(tmp_path / "dumps") if path.name.endswith(".json.gz")]


@pytest.fixture
def home(tmp_path: Path, dumps: list[Path]) -> Path:
    load_dump(tmp_path / "home", dumps[1], _day(dumps[1]), options=DumpOptions(), steps=lambda *_: lambda *_: None)
    build_memory(tmp_path / "facts.kgmemory", home=tmp_path / "home")
    return tmp_path / "home"


def _day(dump: Path) -> datetime.date:
    return datetime.date.fromisoformat(dump.name.partition(".")[0])


@pytest.mark.slow
def test_an_update_says_what_began_and_ended_and_the_way_back_restores_the_file(
    home: Path, dumps: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "facts.kgmemory"
    before = path.read_bytes()
    built, changed = update_memory(path, home=home, dump=dumps[2], day=_day(dumps[2]))
    assert changed is not None
    assert "Poland, head of government: Donald Tusk (Q36:P6:Q946)" in changed.begun
    assert any(
        line.startswith("Poland, head of government: Mateusz Morawiecki, until 2023-12") for line in changed.ended
    )
    assert changed.unchanged > 1000
    assert read_memory_file(path).sha256 == built.sha256
    assert previous_of(path).read_bytes() == before
    roll_back(path)
    assert path.read_bytes() == before
    roll_back(path)
    assert read_memory_file(path).sha256 == built.sha256


@pytest.mark.slow
def test_the_same_sources_change_nothing_and_a_dry_run_does_not_either(
    home: Path, dumps: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "facts.kgmemory"
    before = path.read_bytes()
    assert update_memory(path, home=home)[1] is None
    redirects = dumps[2].with_name("redirects.tsv")
    _, changed = update_memory(path, home=home, dump=dumps[2], day=_day(dumps[2]), redirects=redirects, dry_run=True)
    assert is_loaded(home, dumps[2], _day(dumps[2]), options=DumpOptions(redirects=redirects))
    assert changed is not None
    assert changed.begun
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.glob("*facts.kgmemory*")) == ["facts.kgmemory"]


def test_the_signature_depends_on_the_sources_alone() -> None:
    sources = [{"kind": "snapshots", "snapshots": {"20210104": "ab"}, "as_of": "2021-01-04"}]
    assert signature_of(sources) == signature_of([dict(reversed(sources[0].items()))])
    assert signature_of(sources) != signature_of([{**sources[0], "as_of": "2021-01-05"}])


def test_a_memory_without_a_previous_version_stays(home: Path, tmp_path: Path) -> None:
    assert home.is_dir()
    with pytest.raises(KgeditError, match="no previous version"):
        roll_back(tmp_path / "facts.kgmemory")


@pytest.mark.slow
def test_the_command_prints_the_changes(
    home: Path, dumps: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_HOME", str(home))
    given = ["memory", "update", str(tmp_path / "facts.kgmemory"), "--dump", str(dumps[2]), "--date"]
    done = CliRunner().invoke(main, [*given, _day(dumps[2]).isoformat(), "--format", "json"])
    assert done.exit_code == 0, done.output
    assert "+ " in done.stderr
    told = json.loads(done.stdout)
    assert (len(told["signature"]), told["changes"]["unchanged"] > 1000) == (64, True)
