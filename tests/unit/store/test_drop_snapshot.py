"""A dropped snapshot is removed completely, whenever the removal is interrupted."""

from __future__ import annotations

import datetime
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from world.dumps import entity, load, write_dump

from kgedit.cli import main
from kgedit.errors import StoreError
from kgedit.store.snapshots import drop_snapshot, list_snapshots

DATES = ("2021-01-04", "2023-02-27")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for date in DATES:
        load(tmp_path, write_dump(tmp_path / f"{date}.json", [entity("Q1", label="one")]), date)
    return tmp_path


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"KGEDIT_HOME": str(home)})


def test_the_others_stay(home: Path) -> None:
    result = run(home, "drop-snapshot", DATES[0], "--no-graph")
    assert result.exit_code == 0, result.output
    assert [snapshot.name for snapshot in list_snapshots(home)] == [DATES[1]]
    assert not [path for path in (home / "snapshots").rglob("*") if "20210104" in path.name and path.is_dir()]


def test_what_is_not_loaded_is_told_with_what_is(home: Path) -> None:
    result = run(home, "drop-snapshot", "2022-01-01", "--no-graph")
    assert result.exit_code == 1
    assert "2021-01-04, 2023-02-27" in result.output


def test_a_removal_that_was_interrupted_is_finished(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            drop_snapshot(home, datetime.date.fromisoformat(DATES[0]))
    assert [snapshot.name for snapshot in list_snapshots(home)] == [DATES[1]]
    drop_snapshot(home, datetime.date.fromisoformat(DATES[0]))
    assert not list((home / "snapshots").glob(".20210104.dropped"))


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_snapshot_behind_a_link_is_removed_with_the_link(
    home: Path, tmp_path: Path, interrupted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, disk = home / "snapshots" / "20210104", tmp_path / "disk"
    disk.mkdir()
    folder.symlink_to(folder.rename(disk / "x"))
    if interrupted:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                drop_snapshot(home, datetime.date.fromisoformat(DATES[0]))
    assert [snapshot.name for snapshot in drop_snapshot(home, datetime.date.fromisoformat(DATES[0]))] == [DATES[1]]
    assert list(disk.iterdir()) == []
    assert [path.name for path in folder.parent.iterdir() if path.is_symlink()] == []


def test_a_snapshot_that_was_loaded_again_after_an_interrupted_removal_is_removed(home: Path) -> None:
    folder = home / "snapshots" / "20210104"
    shutil.copytree(folder, folder.with_name(".20210104.dropped"))
    assert [snapshot.name for snapshot in drop_snapshot(home, datetime.date.fromisoformat(DATES[0]))] == [DATES[1]]
    assert not list((home / "snapshots").glob("*20210104*/"))


def test_a_snapshot_with_the_columns_of_another_version_is_loaded_again(home: Path, tmp_path: Path) -> None:
    folder = home / "snapshots" / "20210104"
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 2,', '"format": 1,'))
    (folder / "SHA256SUMS").unlink()
    advice = rf"Remove {re.escape(str(folder))}, and load their dumps again: kgedit load-dump PATH --date 2021-01-04"
    dump = write_dump(tmp_path / "again.json", [entity("Q1")])
    for attempt in (lambda: list_snapshots(home), lambda: load(home, dump, "2021-01-04")):
        with pytest.raises(StoreError, match=advice):
            attempt()
    shutil.rmtree(folder)
    load(home, dump, "2021-01-04")
    assert next(snapshot.name for snapshot in list_snapshots(home)) == "2021-01-04"


def test_of_many_snapshots_of_another_version_three_are_named(home: Path) -> None:
    first = home / "snapshots" / "20210104"
    for year in range(2010, 2020):
        folder = home / "snapshots" / f"{year}0101"
        folder.mkdir()
        manifest = (first / "manifest.json").read_text().replace('"format": 2,', '"format": 1,')
        (folder / "manifest.json").write_text(manifest.replace("2021-01-04", f"{year}-01-01"))
    with pytest.raises(StoreError, match=r"20120101 and 7 more, and load their dumps again.*--date 2010-01-01"):
        list_snapshots(home)


def test_relations_measures_and_tells_what_is_declared(home: Path) -> None:
    result = run(home, "relations", "--date", DATES[0], "--min-subjects", "1", "--format", "csv")
    assert result.exit_code == 0, result.output
