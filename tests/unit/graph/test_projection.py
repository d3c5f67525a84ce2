"""Which snapshots a graph lacks, by what it has recorded of those that it has. No Neo4j runs here."""

from __future__ import annotations

import datetime
from functools import partial
from pathlib import Path
from typing import Any

from kgedit.loaders.wikidata_json import JsonParser
from world.dumps import load, write_dump
from world.two_days import NEW, OLD, about, item

from kgedit.graph import projection
from kgedit.store.schemas import LoaderOptions
from kgedit.store.scope import Scope
from kgedit.store.snapshots import list_snapshots


def _load(home: Path, date: str, **changes: Any) -> None:
    dump = write_dump(home.parent / f"{date}.json", [item("Q1", about("P31", "Q2")), item("Q2")])
    load(home, dump, date, overwrite=True, **changes)


def test_a_snapshot_of_the_same_dump_with_other_options_is_another_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for date in (OLD, NEW):
        _load(home, date)
    snapshots = list_snapshots(home)
    graph = [projection._described(snapshot, Scope(), "complete") for snapshot in snapshots]

    def missing(recorded: list[dict[str, Any]]) -> list[datetime.date] | None:
        found = [projection._found_in(properties) for properties in recorded]
        lacking = projection._missing(found, list_snapshots(home))
        return None if lacking is None else [snapshot.day for snapshot in lacking]

    assert missing(graph) == []
    assert missing(graph[:1]) == [datetime.date.fromisoformat(NEW)]
    options = LoaderOptions(languages=("de", "en"))
    recorded = {"languages": list(options.languages), "wiki": options.wiki}
    _load(home, NEW, make_loader=partial(JsonParser, options), options=recorded)
    assert missing(graph) is None, "it has to be built again"
    assert missing(graph[:1]) == [datetime.date.fromisoformat(NEW)]
    earlier = [{name: value for name, value in one.items() if name != "load"} for one in graph]
    assert missing(earlier) == [], "graphs of earlier versions recorded the dump alone"
