"""Shares of a load in a shared folder: any order and number of them gives the snapshot of one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kgedit.errors import StoreError
from kgedit.progress import ignore
from kgedit.store.buckets import BucketRows, BucketTarget, write_bucket
from kgedit.store.sources import DumpFile
from kgedit.store.tasks import Share, read_share, run_task
from tests.world.dumps import entity, entity_value, load, load_of, snak, statement, write_dump

DATE = "2021-01-04"
SMALL = 3000


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dump that has some blocks, and is loaded in 8 buckets."""
    monkeypatch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes: 8)
    about = [statement(snak("P31", entity_value(item))) for item in ("Q5", "Q6")]
    return write_dump(tmp_path / "dump.json", [entity(f"Q{number}", *about) for number in range(10, 90)])


def task(home: Path, dump: Path, stage: str, part: str = "1/1", date: str = DATE, limit: int | None = None) -> int:
    source = DumpFile(dump, SMALL)
    return run_task(home, load_of(date, limit=limit), source, stage, read_share(part), workers=1, progress=ignore)


@pytest.mark.slow
def test_shares_give_the_bytes_of_one_load(tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(tmp_path / "whole", dump, DATE, block_bytes=SMALL)
    home = tmp_path / "shared"
    parsed = [task(home, dump, "parse", part) for part in ("2/3", "3/3", "1/3", "3/3")]
    assert sum(parsed[:3]) > 3
    assert task(home, dump, "gather") == 8
    assert [task(home, dump, "finish", part) for part in ("3/3", "1/3")] == [2, 3]
    left: list[int] = []

    def noted(rows: BucketRows, targets: Sequence[BucketTarget], *more: Any, **options: Any) -> Any:
        left.append(targets[0].number)
        return write_bucket(rows, targets, *more, **options)

    monkeypatch.setattr("kgedit.store.joining.write_bucket", noted)
    monkeypatch.setattr("kgedit.store.blocks._parse", lambda *_: pytest.fail("a block was parsed again"))
    loaded = load(home, dump, DATE, block_bytes=SMALL)
    assert left == [1, 4, 7]
    assert {path.name: path.read_bytes() for path in loaded.folder.iterdir()} == {
        path.name: path.read_bytes() for path in whole.folder.iterdir()
    }


def test_a_stage_waits_for_the_one_before(tmp_path: Path, dump: Path) -> None:
    with pytest.raises(StoreError, match="kgedit task parse"):
        task(tmp_path, dump, "gather")
    task(tmp_path, dump, "parse", "1/2")
    with pytest.raises(StoreError, match=r"blocks are not parsed, the first is number 1\."):
        task(tmp_path, dump, "gather")
    task(tmp_path, dump, "parse", "2/2")
    with pytest.raises(StoreError, match="kgedit task gather"):
        task(tmp_path, dump, "finish", "1/2")
    with pytest.raises(StoreError, match="has one part"):
        task(tmp_path, dump, "gather", "1/2")
    task(tmp_path, dump, "gather")
    dump.write_bytes(dump.read_bytes().replace(b"Q6", b"Q7"))
    task(tmp_path, dump, "parse")
    with pytest.raises(StoreError, match="changed after they were gathered"):
        task(tmp_path, dump, "finish", "1/2")


def test_shares_of_another_load_are_refused(tmp_path: Path, dump: Path) -> None:
    task(tmp_path, dump, "parse", "1/2")
    with pytest.raises(StoreError, match="other options"):
        task(tmp_path, dump, "parse", "2/2", limit=5)


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/x", "-1/4"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="Write K/N"):
        read_share(text)


def test_shares_are_disjoint_and_complete() -> None:
    taken = [index for number in range(1, 5) for index in range(10) if index in Share(number, 4)]
    assert sorted(taken) == list(range(10))
