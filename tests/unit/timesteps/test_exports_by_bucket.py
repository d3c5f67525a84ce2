"""Exports, deltas and measures do not depend on the number of buckets, which may differ between both snapshots."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from world.dumps import load
from world.shared_data import SHARED

from kgedit.engines.functionality import measure_functionality
from kgedit.engines.store import StoreEngine
from kgedit.sample.generate import write_world
from kgedit.store.delta import write_delta
from kgedit.store.engine import literal
from kgedit.store.scope import Scope
from kgedit.store.snapshots import Snapshot
from kgedit.store.timeline import open_timeline, term_parts
from kgedit.timesteps.export import WikiBigEditSettings, export_timestep
from kgedit.timesteps.wikifactdiff.export import WikiFactDiffSettings
from kgedit.timesteps.wikifactdiff.export import export_timestep as export_wikifactdiff

real = partial(pytest.param, marks=(pytest.mark.shared, pytest.mark.slow))
SCOPES = (Scope(), Scope(around_changes=True))


def loaded(folder: Path, world: str, buckets: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """The first two snapshots of a world, each in a number of buckets."""
    options: dict[str, Any] = {}
    if world == "sample":
        *dumps, options["redirects"] = write_world(folder / "dumps")
    else:
        dumps = sorted((SHARED / "slices" / world).glob("[0-9]*.json.gz"))
    snapshots = []
    for dump, count in zip(dumps[:2], buckets, strict=True):
        monkeypatch.setattr("kgedit.store.builds.bucket_count", lambda _text_bytes, count=count: count)
        day = dump.name[:8]
        snapshots.append(load(folder, dump, f"{day[:4]}-{day[4:6]}-{day[6:]}", **options))
        assert snapshots[-1].buckets == count
    return snapshots


def exported(snapshots: list[Snapshot], folder: Path) -> dict[str, bytes]:
    """Tables of both profiles by name."""
    engine = StoreEngine()
    export_timestep(engine, *snapshots, folder / "wikibigedit", settings=WikiBigEditSettings(changed_locality=True))
    export_wikifactdiff(*snapshots, folder / "wikifactdiff", settings=WikiFactDiffSettings())
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


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
            parts = [connection.sql("FROM whole_terms").fetchall() for _ in term_parts(connection)]
            assert len(parts) == max(1, min(snapshot.buckets for snapshot in snapshots) // 2)
            assert sorted((row for part in parts for row in part), key=repr) == sorted(found[scope, "terms"], key=repr)
            assert connection.sql("FROM whole_terms ORDER BY ALL").fetchall() == found[scope, "terms"]
    return found


def measures(snapshots: list[Snapshot]) -> list[pa.Table]:
    return [measure_functionality(snapshot) for snapshot in snapshots]


@pytest.mark.parametrize(
    ("world", "numbers"),
    [("sample", [(2, 1)]), real("pat", [(8, 8)]), real("w12k", [(8, 2)])],
)
def test_exports_and_measures_are_the_same_in_any_number_of_buckets(
    world: str, numbers: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = loaded(tmp_path / "one", world, (1, 1), monkeypatch)
    tables = exported(one, tmp_path / "one export")
    assert len(tables) > 10
    for buckets in numbers:
        several = loaded(tmp_path / str(buckets), world, buckets, monkeypatch)
        assert measures(several) == measures(one)
        assert exported(several, tmp_path / f"{buckets} export") == tables


def test_deltas_and_graphs_are_the_same_in_any_number_of_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = graphs(loaded(tmp_path / "one", "sample", (1, 1), monkeypatch), tmp_path / "one graph")
    assert {scope for (scope, _), found in rows.items() if found} == set(SCOPES)
    several = loaded(tmp_path / "several", "sample", (4, 8), monkeypatch)
    assert graphs(several, tmp_path / "several graph") == rows
