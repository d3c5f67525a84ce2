"""A graph of what changed answers an export as the whole snapshots do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graph.worlds import SLICES, content, expected_content, kgedit
from kgedit.graph.connection import Graph


@pytest.mark.graph
@pytest.mark.shared
def test_an_export_from_a_graph_of_what_changed_is_that_of_the_whole(
    graph: Graph, home_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, home = home_of("pat"), tmp_path / "laptop"
    window = ("--from", SLICES["pat"][0], "--to", SLICES["pat"][1])
    # The session's server, because another one would take longer to start than all of this.
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    kgedit(home, "load-changes", whole, *window)
    assert content(graph) == expected_content(home)
    export = ("export-timestep", *window, "--functional-by", "data", "--out")
    kgedit(home, *export, tmp_path / "part", "--engine", "graph")
    kgedit(whole, *export, tmp_path / "whole", "--engine", "store")
    tables = sorted((tmp_path / "whole").glob("*.parquet"))
    assert len(tables) > 4
    for table in tables:
        assert (tmp_path / "part" / table.name).read_bytes() == table.read_bytes(), table.name
