"""A graph of what changed answers an export as the whole snapshots do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graph.worlds import SLICES, content, expected_content, kgedit
from kgedit.graph.connection import Graph
from kgedit.graph.managed.server import ManagedServer


@pytest.mark.shared
def test_an_export_from_a_graph_of_what_changed_is_that_of_the_whole(
    home_of: Callable[[str], Path], tmp_path: Path
) -> None:
    whole, home = home_of("pat"), tmp_path / "laptop"
    window = ("--from", SLICES["pat"][0], "--to", SLICES["pat"][1])
    try:
        kgedit(home, "load-changes", whole, *window)
        with Graph.open(home) as graph:
            assert content(graph) == expected_content(home)
        export = ("export-timestep", *window, "--functional-by", "data", "--out")
        kgedit(home, *export, tmp_path / "part", "--engine", "graph")
        kgedit(whole, *export, tmp_path / "whole", "--engine", "store")
    finally:
        ManagedServer(home).stop()
    tables = sorted((tmp_path / "whole").glob("*.parquet"))
    assert len(tables) > 4
    for table in tables:
        assert (tmp_path / "part" / table.name).read_bytes() == table.read_bytes(), table.name
