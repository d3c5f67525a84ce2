"""What changed, taken out of a store: exports from it are those of the whole snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from world.dumps import Json, entity, load, write_dump
from world.real_slices import DATES, EDITS, RealSlice, tables_of
from world.two_days import about, item, two_snapshots

from kgedit.checksums import write_checksums
from kgedit.errors import StoreError, TimestepError
from kgedit.sample.generate import write_world
from kgedit.store.bucket_files import RowGroups
from kgedit.store.engine import literal
from kgedit.store.files import write_json
from kgedit.store.snapshots import SELECTION, SIMILAR_FACTS, Snapshot, read_snapshot
from kgedit.store.tasks import read_share
from kgedit.store.window import Window
from kgedit.timesteps.changes_only import run_changes_task, take_changes
from kgedit.timesteps.engines.functionality import measure_functionality
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.labels import describe_subjects
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings
from kgedit.timesteps.wikifactdiff.export import export_timestep as export_wikifactdiff

Sample = Callable[[int], tuple[Snapshot, Snapshot]]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Two snapshots of the sample in a number of buckets, loaded once, which tests only read."""
    folder = tmp_path_factory.mktemp("sample")
    *dumps, redirects = write_world(folder)
    days = [f"{dump.name[:4]}-{dump.name[4:6]}-{dump.name[6:8]}" for dump in dumps[:2]]

    @cache
    def loaded(buckets: int) -> tuple[Snapshot, Snapshot]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes: buckets)
            older, newer = (
                load(folder / str(buckets), dump, day, redirects=redirects)
                for dump, day in zip(dumps[:2], days, strict=True)
            )
        return older, newer

    return loaded


@pytest.fixture(scope="module")
def taken(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """What changed between both, taken once from a number of buckets, which tests only read."""
    return cache(lambda buckets: take_changes(tmp_path_factory.mktemp(f"taken of {buckets}"), *sample(buckets)))


def exported(window: Sequence[Snapshot], folder: Path, settings: WikiBigEditSettings) -> dict[str, bytes]:
    timestep = export_timestep(StoreEngine(), *window, folder, settings=settings)
    assert timestep.manifest["funnel"]["kept"] > 0
    return tables_of(timestep)


def assert_part_of(whole: Sequence[Snapshot], part: Sequence[Snapshot]) -> None:
    for all_of_it, taken in zip(whole, part, strict=True):
        assert measure_functionality(taken) == measure_functionality(all_of_it)
        assert 0 < taken.manifest["facts"] < taken.manifest["part"]["whole"]["facts"] == all_of_it.manifest["facts"]


@pytest.mark.slow
def test_exports_of_what_changed_are_those_of_the_whole(sample: Sample, taken: Sample, tmp_path: Path) -> None:
    """Exports of the whole are the same in one bucket and in several (test_exports_by_bucket.py)."""
    framed = WikiBigEditSettings(functional_by="constraints", persona_style="framed")
    for buckets, exports in ((1, EDITS), (8, (framed,))):
        assert_part_of(sample(buckets), taken(buckets))
        for number, settings in enumerate(exports):
            wanted = exported(sample(1), tmp_path / f"whole {buckets} {number}", settings)
            assert exported(taken(buckets), tmp_path / f"part {buckets} {number}", settings) == wanted


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("world", DATES)
def test_so_are_those_of_real_slices(world: str, real_slice: Callable[[str], RealSlice], tmp_path: Path) -> None:
    real = real_slice(world)
    part = take_changes(tmp_path / "home", *real.in_buckets)
    assert_part_of(real.in_buckets, part)
    for number, (settings, whole) in enumerate(zip(EDITS, real.edits, strict=True)):
        assert exported(part, tmp_path / f"part {number}", settings) == tables_of(whole)


@pytest.mark.slow
def test_the_same_rows_are_taken_in_any_number_of_buckets(taken: Sample) -> None:
    one, several = taken(1), taken(8)
    for alone, divided in zip(one, several, strict=True):
        assert (alone.buckets, divided.buckets) == (1, 8)
        assert {name: alone.manifest[name] for name in COUNTS} == {name: divided.manifest[name] for name in COUNTS}
        assert rows_of(alone) == rows_of(divided)
    assert one[1].measured(SIMILAR_FACTS).read_bytes() == several[1].measured(SIMILAR_FACTS).read_bytes()


COUNTS = ("entities", "redirected", "claims", "claims_with_value", "facts")


def rows_of(snapshot: Snapshot) -> list[list[tuple[Any, ...]]]:
    """Sorted rows of the three tables, without the places of statements, which depend on the buckets."""
    tables = {snapshot.claims: "place", snapshot.facts: "statement_place, statement_places", snapshot.entities: ""}
    found = []
    for path, places in tables.items():
        columns = f"* EXCLUDE ({places})" if places else "*"
        found.append(duckdb.sql(f"SELECT {columns} FROM {literal(path)} ORDER BY ALL").fetchall())
    assert all(found)
    return found


@pytest.mark.slow
def test_shares_of_both_stages_give_the_bytes_of_one_call(
    sample: Sample, taken: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sample(8)
    wanted = bytes_of(taken(8))
    home = tmp_path / "shared"
    with pytest.raises(StoreError, match="kgedit task select-changes"):
        run_changes_task(home, *whole, "take-changes", read_share("1/3"))
    with pytest.raises(StoreError, match="has one part"):
        run_changes_task(home, *whole, "select-changes", read_share("1/3"))
    assert run_changes_task(home, *whole, "select-changes", read_share("1/1")) == 8
    with monkeypatch.context() as patch:
        patch.setattr("kgedit.timesteps.changes_only.RowGroups.write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_changes_task(home, *whole, "take-changes", read_share("1/3"))
    shares = ("2/3", "1/3", "1/3")
    assert [run_changes_task(home, *whole, "take-changes", read_share(share)) for share in shares] == [3, 3, 3]
    written: list[str] = []
    monkeypatch.setattr("kgedit.timesteps.changes_only.RowGroups", noted(written))
    assert bytes_of(take_changes(home, *whole)) == wanted
    assert sorted(written) == sorted(
        2 * [f"{table}-{number:05d}.parquet" for table in ("claims", "entities", "facts") for number in (2, 5)]
    )


def interrupted(_file: RowGroups, _table: pa.Table) -> None:
    raise KeyboardInterrupt


def noted(names: list[str]) -> type[RowGroups]:
    """Class that notes the names of the files that it writes."""

    class Noted(RowGroups):
        def __init__(self, path: Path, schema: pa.Schema) -> None:
            names.append(path.name[1:].partition(".parquet")[0] + ".parquet")
            super().__init__(path, schema)

    return Noted


def bytes_of(part: Sequence[Snapshot]) -> dict[str, bytes]:
    folders = [snapshot.folder for snapshot in part]
    assert sorted(folders[0].parent.glob("[!.]*")) == folders
    return {f"{folder.name}/{path.name}": path.read_bytes() for folder in folders for path in folder.iterdir()}


def small(folder: Path) -> tuple[Snapshot, Snapshot]:
    """Two snapshots in which Q1 gets another leader, and Q2 keeps its own."""
    before, after = (
        [item("Q1", about("P6", leader), label="Arvika"), item("Q2", about("P6", "Q21"), about("P99", "Q9"))]
        for leader in ("Q11", "Q12")
    )
    return two_snapshots(folder, before, after)


def test_a_part_contains_whole_pairs(tmp_path: Path) -> None:
    whole = small(tmp_path)
    part = take_changes(tmp_path / "home", *whole)
    for snapshot, leader in zip(part, ("Q11", "Q12"), strict=True):
        for path in (snapshot.claims, snapshot.facts):
            rows = duckdb.sql(f"SELECT subject, property, object FROM {literal(path)} WHERE subject = 'Q1'").fetchall()
            assert rows == [("Q1", "P6", leader)]
    assert duckdb.sql(f"SELECT count(*) FROM {literal(part[0].facts)} WHERE property = 'P99'").fetchall() == [(0,)]


def test_a_part_contains_items_that_had_a_name_of_its_subjects(tmp_path: Path) -> None:
    before, after = (
        [item("Q1", about("P6", leader), label="Arvika"), item("Q2", about("P7", "Q9"), label=label)]
        for leader, label in (("Q11", "Arvika"), ("Q12", "Kristinehamn"))
    )
    for snapshot in take_changes(tmp_path / "home", *two_snapshots(tmp_path, before, after)):
        found = duckdb.sql(f"SELECT id FROM {literal(snapshot.entities)} WHERE id[1] = 'Q' ORDER BY id").fetchall()
        assert found == [("Q1",), ("Q2",)]


def test_exports_of_a_part_have_the_hints_of_the_whole(tmp_path: Path) -> None:
    """Q3 has the country of Q1, and Q4 its description."""
    before, after = (
        [
            named("Q1", "city", about("P17", "Q30"), about("P6", leader)),
            named("Q2", "town", about("P17", "Q31")),
            named("Q3", "village", about("P17", "Q30")),
            named("Q4", "city", about("P17", "Q32")),
            item("Q30", label="Spain"),
        ]
        for leader in ("Q11", "Q12")
    )
    whole = two_snapshots(tmp_path, before, after)
    asked = pa.table({"subject": ["Q1"], "subject_label": ["Springfield"]})
    for number, pair in enumerate((whole, take_changes(tmp_path / "home", *whole))):
        with Window(*pair, spill=tmp_path / f"spill {number}") as window:
            assert describe_subjects(window.connection, asked)["hinted_names"].to_pylist() == [[]]


def test_a_part_contains_no_country_of_an_item_that_is_gone(tmp_path: Path) -> None:
    before, after = (
        [named("Q1", "city", about("P6", leader)), named("Q2", "city", about("P17", "Q30"))]
        for leader in ("Q11", "Q12")
    )
    older, _ = take_changes(tmp_path / "home", *two_snapshots(tmp_path, before, after[:1]))
    found = duckdb.sql(f"SELECT id FROM {literal(older.entities)} WHERE id IN ('Q1', 'Q30') ORDER BY id").fetchall()
    assert found == [("Q1",)]


def named(name: str, description: str, *statements: Json) -> Json:
    described = {"en": {"language": "en", "value": description}}
    return entity(name, *statements, label="Springfield", descriptions=described)


def test_existing_parts_are_kept(tmp_path: Path) -> None:
    whole = small(tmp_path)
    stamps = [
        [
            path.stat().st_mtime_ns
            for snapshot in take_changes(tmp_path / "home", *whole)
            for path in snapshot.folder.iterdir()
        ]
        for _ in range(2)
    ]
    assert stamps[0] == stamps[1]


def test_parts_of_another_selection_are_refused(tmp_path: Path) -> None:
    whole = small(tmp_path)
    part = take_changes(tmp_path / "home", *whole)
    for snapshot in part:
        earlier = {name: value for name, value in snapshot.manifest["part"].items() if name != "selection"}
        write_json(snapshot.folder / "manifest.json", snapshot.manifest | {"part": earlier})
        write_checksums(snapshot.folder)
    with pytest.raises(StoreError, match=r"kgedit drop-snapshot .* kgedit load-changes STORE --from"):
        take_changes(tmp_path / "home", *whole)
    earlier_part = [read_snapshot(snapshot.folder) for snapshot in part]
    with pytest.raises(StoreError, match="another version of kgedit selected it"):
        export_timestep(StoreEngine(), *earlier_part, tmp_path / "edits", settings=WikiBigEditSettings())


def test_an_unfinished_selection_of_another_version_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, home = small(tmp_path), tmp_path / "home"
    selected = home / "snapshots" / ".changes" / "selected.json"
    with monkeypatch.context() as patch:
        patch.setattr("kgedit.timesteps.changes_only.SELECTION", 1)
        run_changes_task(home, *whole, "select-changes", read_share("1/1"))
    with pytest.raises(StoreError, match="not selected"):
        run_changes_task(home, *whole, "take-changes", read_share("1/1"))
    run_changes_task(home, *whole, "select-changes", read_share("1/1"))
    assert {part["part"]["selection"] for part in json.loads(selected.read_bytes())["parts"]} == {SELECTION}


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    whole = small(tmp_path)
    first, second = (bytes_of(take_changes(tmp_path / name, *whole)) for name in ("one", "two"))
    assert first == second


def test_a_home_of_parts_takes_no_other_snapshot_and_other_homes_take_no_parts(tmp_path: Path) -> None:
    whole = small(tmp_path)
    part = take_changes(tmp_path / "home", *whole)
    home = whole[0].folder.parents[1]
    with pytest.raises(StoreError, match="contains only what changed between"):
        load(tmp_path / "home", write_dump(tmp_path / "third.json", [item("Q1")]), "2024-06-03")
    with pytest.raises(StoreError, match="already contains other snapshots"):
        take_changes(home, *whole)
    with pytest.raises(StoreError, match="Give the store with the whole snapshots"):
        take_changes(tmp_path / "further", *part)
    with pytest.raises(StoreError, match="not before"):
        take_changes(tmp_path / "further", whole[1], whole[0])


@pytest.mark.slow
def test_what_a_part_cannot_answer_is_refused(tmp_path: Path) -> None:
    part = take_changes(tmp_path / "home", *small(tmp_path))
    with pytest.raises(TimestepError, match="profile wikifactdiff"):
        export_wikifactdiff(*part, tmp_path / "wikifactdiff", settings=WikiFactDiffSettings())
    with pytest.raises(TimestepError, match="facts of at most 500 items"):
        export_timestep(StoreEngine(), *part, tmp_path / "edits", settings=WikiBigEditSettings(max_df=501))
    with pytest.raises(TimestepError, match="Leave out hops"):
        export_timestep(StoreEngine(), *part, tmp_path / "chains", settings=WikiBigEditSettings(hops=3))
