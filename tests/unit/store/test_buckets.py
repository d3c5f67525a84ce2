"""Buckets of a snapshot: the same rows in any number of buckets, the same bytes in any way to write them."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgedit.errors import DamagedFileError
from kgedit.store.bucket_numbers import bucket_count, bucket_of
from kgedit.store.bucket_rows import ReadRows
from kgedit.store.buckets import BucketTarget, write_bucket
from kgedit.store.engine import literal
from kgedit.store.gathering import Gathered
from kgedit.store.planning import plan_join
from kgedit.store.snapshots import Snapshot, SnapshotTable
from tests.world.dumps import Json, entity, entity_value, load, snak, statement, write_dump
from tests.world.rows import rows_of

DATE = "2021-01-04"


def about(item: str, *qualifiers: Json, **more: Any) -> Json:
    return statement(snak("P31", entity_value(item)), *qualifiers, **more)


IDS = st.lists(st.from_regex(r"[QPL][1-9][0-9]{0,9}", fullmatch=True) | st.text(max_size=20), min_size=1)


@pytest.mark.slow
@given(IDS, st.integers(0, 10))
def test_a_bucket_splits_into_two_of_twice_as_many(ids: list[str], power: int) -> None:
    fewer, more = (bucket_of(pa.array(ids), 2 ** (power + extra)).to_pylist() for extra in (0, 1))
    assert [number % 2**power for number in more] == fewer


def test_ids_are_spread_evenly() -> None:
    numbers = bucket_of(pa.array([f"Q{number}" for number in range(64_000)]), 64).to_numpy()
    sizes = [int((numbers == bucket).sum()) for bucket in range(64)]
    assert min(sizes) > 850
    assert max(sizes) < 1150


def test_the_bucket_of_an_id_never_changes() -> None:
    """Snapshots of many versions are compared by bucket."""
    numbers = bucket_of(pa.array(["Q1", "Q42", "P31", "L7", "Q100000000", ""]), 65_536).to_pylist()
    assert numbers == [1644, 36084, 3738, 5754, 49893, 15442]


def test_small_dumps_have_one_bucket() -> None:
    assert [bucket_count(size) for size in (0, 1, 2**29, 2**29 + 1, 2**31)] == [1, 1, 1, 2, 4]


def _dump(folder: Path) -> Path:
    """Repeated entities and statements, ids shared with other subjects, redirects and a restrictive qualifier."""
    many = [entity(f"Q{number}", about("Q5"), about("Q6", snak("P1", "somevalue"))) for number in range(10, 90)]
    odd = [
        entity("Q1", about("Q5", statement_id="Q1$A"), about("Q6", statement_id="x"), label="first"),
        entity("Q2", about("Q5", statement_id="Q1$A"), about("Q5", statement_id="q2$B"), about("Q7", statement_id="x")),
        entity("Q3", about("Q5", statement_id="Q1$A"), about("Q5", statement_id="Q1$A")),
        entity("Q120", about("Q5", statement_id="Q120$C"), about("Q5", statement_id="Q1$A")),
        entity("P1", about("Q61719275")),
        entity("Q1", about("Q9", statement_id="Q1$A"), about("Q9", statement_id="x"), label="again"),
    ]
    merged = [{"type": "item", "id": "Q90", "redirects": {"from": "Q95", "to": "Q90"}, "claims": []}]
    return write_dump(folder / "dump.json", [*many, *odd, *merged])


def _in_buckets(folder: Path, dump: Path, buckets: int, monkeypatch: pytest.MonkeyPatch, **changes: object) -> Snapshot:
    monkeypatch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes: buckets)
    return load(folder, dump, DATE, block_bytes=2000, **changes)


def _rows(snapshot: Snapshot) -> dict[str, list[str]]:
    return {table: sorted(map(repr, rows_of(snapshot, table))) for table in get_args(SnapshotTable)}


@pytest.mark.parametrize("buckets", [2, 64])
@pytest.mark.slow
def test_rows_and_counts_do_not_depend_on_the_number_of_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int
) -> None:
    dump = _dump(tmp_path)
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("".join(f"Q{number}\tQ{number - 1000}\n" for number in range(1010, 1040)), encoding="utf-8")
    one = _in_buckets(tmp_path / "one", dump, 1, monkeypatch, redirects=redirects)
    several = _in_buckets(tmp_path / "several [it's]", dump, buckets, monkeypatch, redirects=redirects)
    assert _rows(several) == _rows(one)
    assert {**several.manifest, "buckets": 1} == one.manifest
    assert one.manifest["left_out"]["repeated statement"] == 1
    assert one.manifest["left_out"]["statement of a repeated entity"] == 2
    shared = duckdb.sql(f"SELECT statement_id FROM {literal(one.claims)} WHERE statement_id LIKE '%#%' ORDER BY 1")
    assert shared.fetchall() == [("Q1$A#2",), ("Q1$A#3",), ("Q1$A#4",), ("x#2",)]


def test_each_row_is_in_the_bucket_of_its_subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = _in_buckets(tmp_path, _dump(tmp_path), 8, monkeypatch)
    for number in range(8):
        for table, column in (("claims", "subject"), ("facts", "subject"), ("entities", "id")):
            ids = duckdb.sql(f"SELECT {column} AS id FROM {literal(snapshot.bucket_file(table, number))}")
            assert set(bucket_of(ids.to_arrow_table()["id"], 8).to_pylist()) <= {number}


@pytest.mark.parametrize(("buckets", "workers"), [(4, 2), (1, 3)])
@pytest.mark.slow
def test_bytes_do_not_depend_on_runs_groups_threads_and_buckets_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int, workers: int
) -> None:
    dump = _dump(tmp_path)
    first = _in_buckets(tmp_path / "first", dump, buckets, monkeypatch)
    monkeypatch.setattr("kgedit.store.part_files._MOST_DIVISIONS", 2)
    monkeypatch.setattr("kgedit.store.gathering._ROWS_PER_RUN", 40)
    monkeypatch.setattr("kgedit.store.bucket_rows._ROWS_AT_ONCE", 10)
    monkeypatch.setattr("kgedit.store.joining.available_memory", lambda: 1 << 40)
    second = _in_buckets(tmp_path / "second", dump, buckets, monkeypatch, workers=workers)
    for path in sorted(first.folder.iterdir()):
        assert (second.folder / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_missing_bucket_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = _in_buckets(tmp_path, _dump(tmp_path), 4, monkeypatch)
    (snapshot.folder / "facts-00002.parquet").unlink()
    with pytest.raises(DamagedFileError, match=r"facts-00002.parquet.*missing"):
        snapshot.check()
    with pytest.raises(DamagedFileError, match=r"facts-00002.parquet.*missing"):
        _ = snapshot.facts


@pytest.mark.parametrize("divisions", [1, 16])
def test_the_rows_of_a_bucket_are_never_in_memory_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, divisions: int
) -> None:
    monkeypatch.setattr("kgedit.store.part_files._MOST_DIVISIONS", divisions)
    monkeypatch.setattr("kgedit.store.gathering._ROWS_PER_RUN", 40)
    monkeypatch.setattr("kgedit.store.bucket_rows._ROWS_AT_ONCE", 10)
    held: list[int] = []
    alive = 0

    def watched(gathered: Gathered, number: int, columns: Mapping[str, Sequence[str]] | None = None) -> Any:
        nonlocal alive
        for rows in read(gathered, number, columns):
            alive += 1
            weakref.finalize(rows.claims, dies)
            held.append(alive)
            yield rows
            del rows

    def dies() -> None:
        nonlocal alive
        alive -= 1

    read = Gathered.rows
    monkeypatch.setattr(Gathered, "rows", watched)
    _in_buckets(tmp_path, _dump(tmp_path), 2, monkeypatch)
    assert len(held) > 20
    assert max(held) <= 4


@pytest.mark.slow
def test_an_interrupted_load_keeps_finished_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = _dump(tmp_path)
    whole = _in_buckets(tmp_path / "whole", dump, 8, monkeypatch)
    written: list[int] = []

    def write(read: ReadRows, targets: Sequence[BucketTarget], *more: Any, **options: Any) -> list[Counter[str]]:
        if len(written) == 3:
            raise KeyboardInterrupt
        counts = write_bucket(read, targets, *more, **options)
        written.append(targets[0].number)
        return counts

    with monkeypatch.context() as patch:
        patch.setattr("kgedit.store.joining.write_bucket", write)
        with pytest.raises(KeyboardInterrupt):
            _in_buckets(tmp_path / "again", dump, 8, monkeypatch)
    assert written == [0, 1, 2]
    (damaged,) = (tmp_path / "again").rglob("facts-00001.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-10])
    with monkeypatch.context() as patch:
        patch.setattr("kgedit.store.joining.plan_join", partial(_only_read, tmp_path / "again"))
        patch.setattr("kgedit.store.joining.write_bucket", lambda *given, **options: _noted(written, *given, **options))
        again = _in_buckets(tmp_path / "again", dump, 8, monkeypatch)
    assert written[3:] == [1, 3, 4, 5, 6, 7]
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == {
        path.name: path.read_bytes() for path in whole.folder.iterdir()
    }


@pytest.mark.slow
def test_blocks_that_changed_are_gathered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same name and size, but another content, after buckets of the first one were finished."""
    dump = _dump(tmp_path)
    other = tmp_path / "other" / dump.name
    other.parent.mkdir()
    other.write_bytes(dump.read_bytes().replace(b"first", b"other"))
    whole = _in_buckets(tmp_path / "whole", other, 8, monkeypatch)
    written: list[int] = []

    def dies(read: ReadRows, targets: Sequence[BucketTarget], *more: Any, **options: Any) -> list[Counter[str]]:
        if len(written) == 7:
            raise KeyboardInterrupt
        return _noted(written, read, targets, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr("kgedit.store.joining.write_bucket", dies)
        with pytest.raises(KeyboardInterrupt):
            _in_buckets(tmp_path / "again", dump, 8, monkeypatch)
    again = _in_buckets(tmp_path / "again", other, 8, monkeypatch)
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == {
        path.name: path.read_bytes() for path in whole.folder.iterdir()
    }


def _noted(written: list[int], read: ReadRows, targets: Sequence[BucketTarget], *more: Any, **options: Any) -> Any:
    written.append(targets[0].number)
    return write_bucket(read, targets, *more, **options)


def _only_read(home: Path, *given: Any, **options: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgedit.store.planning.open_engine", lambda *_: pytest.fail(f"{home} was planned again"))
        return plan_join(*given, **options)
