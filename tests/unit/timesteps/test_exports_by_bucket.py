"""Exports, deltas and measures do not depend on the number of buckets, which may differ between both snapshots, nor on
the sizes of the parts that their steps take at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest
from duckdb import StatementType
from world.dumps import load
from world.real_slices import DATES, EDITS, RealSlice, tables_of

from kgedit.sample.generate import write_world
from kgedit.store.delta import write_delta
from kgedit.store.engine import literal
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import open_timeline, term_parts
from kgedit.timesteps.engines.functionality import measure_functionality
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.wikifactdiff.cases import find_unchanged_triples
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings
from kgedit.timesteps.wikifactdiff.export import export_timestep as export_wikifactdiff

SCOPES = (Scope(), Scope(around_changes=True))
SETTINGS = WikiBigEditSettings(changed_locality=True, hops=4)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Dumps of the sample, and its redirects."""
    return write_world(tmp_path_factory.mktemp("dumps"))


def loaded(written: list[Path], folder: Path, buckets: tuple[int, int]) -> list[Snapshot]:
    """The first two snapshots of the sample, each in a number of buckets."""
    *dumps, redirects = written
    snapshots = []
    for dump, count in zip(dumps[:2], buckets, strict=True):
        day = dump.name[:8]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes, count=count: count)
            snapshots.append(load(folder, dump, f"{day[:4]}-{day[4:6]}-{day[6:]}", redirects=redirects))
        assert snapshots[-1].buckets == count
    return snapshots


@pytest.fixture(scope="module")
def in_one(written: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """The sample in one bucket, which the tests only read."""
    return loaded(written, tmp_path_factory.mktemp("one"), (1, 1))


@pytest.fixture(scope="module")
def tables(in_one: list[Snapshot], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """Its exports, in one part per step."""
    found = exported(in_one, tmp_path_factory.mktemp("at once"), SETTINGS)
    assert all(len(files) > 4 for files in found)
    return found


def exported(snapshots: list[Snapshot], folder: Path, settings: WikiBigEditSettings) -> list[dict[str, bytes]]:
    """Tables of both profiles."""
    edits = export_timestep(StoreEngine(), *snapshots, folder / "wikibigedit", settings=settings)
    updates = export_wikifactdiff(*snapshots, folder / "wikifactdiff", settings=WikiFactDiffSettings())
    return [tables_of(edits), tables_of(updates)]


def graphs(snapshots: list[Snapshot], folder: Path) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Sorted rows of deltas and of whole graphs, in every scope."""
    found = {}
    for number, scope in enumerate(SCOPES):
        delta = folder / f"delta-{number}"
        delta.mkdir(parents=True)
        for step, path in write_delta(*snapshots, scope, delta).items():
            found[scope, step] = duckdb.sql(f"FROM {literal(path)} ORDER BY ALL").fetchall()
        with open_timeline(snapshots, scope, spill=folder / "spill") as connection:
            for view in ("terms", "redirects", "facts", *(["claims"] if scope.evidence else [])):
                found[scope, view] = connection.sql(f"FROM whole_{view} ORDER BY ALL").fetchall()
            (folder / "sorted").mkdir()
            parts = [connection.sql("FROM whole_terms").fetchall() for _ in term_parts(connection, folder / "sorted")]
            assert len(parts) == max(1, min(snapshot.buckets for snapshot in snapshots) // 2)
            assert sorted((row for part in parts for row in part), key=repr) == sorted(found[scope, "terms"], key=repr)
            assert connection.sql("FROM whole_terms ORDER BY ALL").fetchall() == found[scope, "terms"]
        shutil.rmtree(folder / "sorted")
    return found


def measures(snapshots: list[Snapshot]) -> list[pa.Table]:
    return [measure_functionality(snapshot) for snapshot in snapshots]


@pytest.mark.slow
def test_exports_and_measures_are_the_same_in_any_number_of_buckets(
    written: list[Path], in_one: list[Snapshot], tables: list[dict[str, bytes]], tmp_path: Path
) -> None:
    several = loaded(written, tmp_path / "several", (2, 1))
    assert measures(several) == measures(in_one)
    assert exported(several, tmp_path / "several export", SETTINGS) == tables


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("world", DATES)
def test_so_are_those_of_real_slices(world: str, real_slice: Callable[[str], RealSlice], tmp_path: Path) -> None:
    real = real_slice(world)
    assert measures(real.in_buckets) == measures(real.snapshots[:2])
    found = exported(real.in_buckets, tmp_path, EDITS[1])
    assert all(len(files) > 4 for files in found)
    assert found == [tables_of(real.edits[1]), tables_of(real.updates[0])]


@pytest.mark.slow
def test_deltas_and_graphs_are_the_same_in_any_number_of_buckets(
    written: list[Path], in_one: list[Snapshot], tmp_path: Path
) -> None:
    rows = graphs(in_one, tmp_path / "one graph")
    assert {scope for (scope, _), found in rows.items() if found} == set(SCOPES)
    several = loaded(written, tmp_path / "several", (4, 8))
    assert graphs(several, tmp_path / "several graph") == rows


@pytest.mark.slow
def test_exports_do_not_depend_on_how_many_rows_are_taken_at_once(
    in_one: list[Snapshot], tables: list[dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each step takes a few parts, whose borders are at different rows.
    sizes = {
        "kgedit.timesteps.chain_paths._PATHS_AT_ONCE": 19,
        "kgedit.timesteps.chain_paths._CASES_AT_ONCE": 17,
        "kgedit.timesteps.chains._WORDED_AT_ONCE": 13,
        "kgedit.timesteps.engines.store._EDITS_AT_ONCE": 29,
        "kgedit.timesteps.changes._CHANGES_AT_ONCE": 47,
        "kgedit.timesteps.labels._SUBJECTS_AT_ONCE": 37,
        "kgedit.timesteps.kinds.snapshot_tables._CHANGES_AT_ONCE": 31,
        "kgedit.timesteps.locality._CASES_AT_ONCE": 23,
        "kgedit.timesteps.wording._FACTS_AT_ONCE": 41,
    }
    for name, size in sizes.items():
        monkeypatch.setattr(name, size)
    assert exported(in_one, tmp_path / "in parts", SETTINGS) == tables


class Watched:
    """A connection that collects the queries whose plan compares all rows of a table with all of another."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, found: list[str]) -> None:
        self._connection = connection
        self._found = found

    def execute(self, query: str, *given: Any) -> duckdb.DuckDBPyConnection:
        for statement in duckdb.extract_statements(query):
            if statement.type in (StatementType.CREATE, StatementType.DELETE, StatementType.INSERT):
                plan = self._connection.execute(f"EXPLAIN {statement.query}", *given).fetchall()[0][1]
                self._found += [query] if "blockwise" in plan.lower() else []
            self._connection.execute(statement, *given)
        return self._connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def test_no_query_of_an_export_compares_all_subjects_with_all_objects(
    in_one: list[Snapshot], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(
        "kgedit.timesteps.wikifactdiff.export.find_unchanged_triples",
        lambda workspace: find_unchanged_triples(cast("Any", Watched(workspace, found))),
    )
    export_wikifactdiff(*in_one, tmp_path, settings=WikiFactDiffSettings())
    assert not found
