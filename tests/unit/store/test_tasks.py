"""Shares of a load or delta in a shared folder: any order and number of them gives the result of one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgedit.errors import StoreError
from kgedit.progress import ignore
from kgedit.store import delta
from kgedit.store.bucket_rows import ReadRows
from kgedit.store.buckets import BucketTarget, write_bucket
from kgedit.store.delta import delta_folder, missing_parts, write_delta
from kgedit.store.scope import Scope
from kgedit.store.snapshots import BucketGroup, Snapshot
from kgedit.store.sources import DumpFile
from kgedit.store.tasks import Share, read_share, run_delta_task, run_task
from tests.world.dumps import entity, entity_value, hashes, load, load_of, snak, statement, write_dump

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
    (target,) = (home / "snapshots" / ".20210104.loading").glob("whole-*")
    (target / "..counts-00001.json.0f.aside").touch()  # of a killed process
    left: list[int] = []

    def noted(read: ReadRows, targets: Sequence[BucketTarget], *more: Any, **options: Any) -> Any:
        left.append(targets[0].number)
        return write_bucket(read, targets, *more, **options)

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
    with pytest.raises(StoreError, match=r"not gathered yet\. .* kgedit task gather"):
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


def test_a_load_with_other_options_discards_finished_parts_only_if_it_overwrites(tmp_path: Path, dump: Path) -> None:
    task(tmp_path, dump, "parse", "1/2")
    before = hashes(tmp_path)
    with pytest.raises(StoreError, match=r"(?s)finished for another load:\n  - limit: none then, 5 now\n.*overwrite"):
        load(tmp_path, dump, DATE, limit=5, block_bytes=SMALL)
    assert hashes(tmp_path) == before
    assert load(tmp_path, dump, DATE, limit=5, block_bytes=SMALL, overwrite=True).manifest["lines"] == 5


def test_parts_that_load_dump_would_refuse_are_refused_at_once(
    tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tmp_path, dump, DATE, block_bytes=SMALL)
    assert task(tmp_path, dump, "parse") > 1
    with pytest.raises(StoreError, match=rf"(?s)limit: none then, 5 now\n.*kgedit drop-snapshot {DATE}$"):
        task(tmp_path, dump, "parse", limit=5)
    monkeypatch.setattr(Snapshot, "is_part", True)
    with pytest.raises(StoreError, match="contains only what changed between"):
        task(tmp_path, dump, "parse", date="2023-02-27")


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/x", "-1/4"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="Write K/N"):
        read_share(text)


def test_shares_are_disjoint_and_complete() -> None:
    taken = [index for number in range(1, 5) for index in range(10) if index in Share(number, 4)]
    assert sorted(taken) == list(range(10))


def delta_of(home: Path, older: Snapshot, newer: Snapshot, scope: Scope) -> dict[str, bytes]:
    folder = delta_folder(home, newer)
    folder.mkdir(parents=True, exist_ok=True)
    found = {step: path.read_bytes() for step, path in write_delta(older, newer, scope, folder).items()}
    assert sorted(folder.iterdir()) == sorted(folder / f"{step}.parquet" for step in found)
    return found


@pytest.mark.slow
def test_shares_of_a_delta_give_the_bytes_of_one_process(
    tmp_path: Path, dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = statement(snak("P31", entity_value("Q7")))
    changed = write_dump(tmp_path / "newer.json", [entity(f"Q{number}", about) for number in range(20, 99)])
    older, newer = load(tmp_path, dump, DATE), load(tmp_path, changed, "2023-02-27")
    whole = delta_of(tmp_path / "whole", older, newer, Scope())
    assert pq.read_metadata(delta_folder(tmp_path / "whole", newer) / "facts_begun.parquet").num_rows == 79
    home = tmp_path / "shared"
    run_delta_task(home, older, newer, Scope(evidence=False), read_share("1/1"))  # of another scope: not used
    done = [run_delta_task(home, older, newer, Scope(), read_share(part)) for part in ("2/3", "1/3", "2/3")]
    assert done == [3, 3, 3]
    assert missing_parts(older, newer, Scope(), delta_folder(home, newer)) == [2, 5]
    shown: list[int] = []
    monkeypatch.setattr("kgedit.store.delta._show_what_changed", noted(shown))
    assert delta_of(home, older, newer, Scope()) == whole
    assert shown == [2, 5]


def noted(numbers: list[int]) -> Callable[..., None]:
    """The function that begins a part of a delta, which notes the part's number."""
    begin = delta._show_what_changed

    def begin_noted(connection: Any, snapshots: Any, scope: Scope, group: BucketGroup) -> None:
        numbers.append(group.number)
        begin(connection, snapshots, scope, group)

    return begin_noted
