"""A load of 80,000 statements on 64 cores, an export of it on two and on 64, and other work on it in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from generated_dumps import DATES, write_dumps

import kgedit
from kgedit.graph_memory.building import read_dated_facts
from kgedit.store import bucket_files, timeline
from kgedit.store.snapshots import list_snapshots
from kgedit.store.window import Window
from kgedit.timesteps.engines.store import StoreEngine

STATEMENTS = 80_000
ROWS = 2_048
"""Rows per row group, which DuckDB reads with one thread: each table has 39 groups, as one of 4 million rows."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kgedit.Home]:
    folder = tmp_path_factory.mktemp("many threads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_files, "ROW_GROUP_ROWS", ROWS)
        patch.setenv("KGEDIT_STORE_THREADS", "64")
        loaded = kgedit.Home(folder / "home")
        for path, day in zip(write_dumps(folder / "dumps", statements=STATEMENTS), DATES, strict=False):
            redirects = folder / "dumps" / "redirects.tsv"
            snapshot = loaded.load_dump(path, day, redirects=redirects, workers=2, graph=False)
            assert snapshot.manifest["claims"] > STATEMENTS
        yield loaded


@pytest.mark.slow
def test_an_export_is_the_same_with_any_number_of_threads(
    home: kgedit.Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for threads in (2, 64):
        monkeypatch.setenv("KGEDIT_STORE_THREADS", str(threads))
        out = tmp_path / f"with {threads}"
        home.export_timestep(*DATES[:2], out=out, engine="store", forms=())
        written.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert len(written[0]) > 3
    assert written[1] == written[0]


@pytest.mark.slow
def test_facts_of_a_memory_are_joined_with_their_names_one_end_at_a_time(
    home: kgedit.Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = list_snapshots(home.path)
    enough = read_dated_facts(snapshots)
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "1")
    monkeypatch.setattr(timeline, "_MEMORY", "48MB")  # all joins in one query need more
    little = read_dated_facts(snapshots)
    assert little.num_rows > STATEMENTS / 2
    assert little.equals(enough)


@pytest.mark.slow
def test_features_of_entities_are_numbers_that_spill(
    home: kgedit.Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_STORE_THREADS", "1")
    found = []
    for memory in ("15MB", "256MB"):  # texts of all pairs of a property and an item need more than 16 MB
        with Window(*list_snapshots(home.path), spill=tmp_path, memory=memory) as window:
            items = window.select("SELECT id FROM old_entities WHERE kind = 'item' ORDER BY id")
            found += StoreEngine().nearest_entities(window, items.slice(0, 100), items, n=5)
    assert found[0].num_rows > 400
    assert found[0].equals(found[1])
