"""A graph with part of the snapshots is not queried about facts that did not change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from world.two_days import about, item, two_snapshots

from kgedit.errors import TimestepError
from kgedit.graph.connection import Graph
from kgedit.store.window import Window
from kgedit.timesteps.engines.graph import GraphEngine
from kgedit.timesteps.engines.store import StoreEngine


class ScopedGraph:
    """Knows its scope and refuses every question."""

    def __init__(self, **scope: Any) -> None:
        self._scope = scope

    def rows(self, cypher: str) -> list[dict[str, Any]]:
        assert "(s:Snapshot)" in cypher
        return [{"properties": self._scope}]

    def table(self, cypher: str, parameters: object, *, columns: object) -> pa.Table:
        raise AssertionError((cypher, parameters))


@pytest.mark.parametrize(
    "scope", [{"properties": ["P6"]}, {"around_changes": True}, {"changed_pairs": True}, {"items_only": True}]
)
def test_a_partial_graph_leaves_unchanged_facts_to_the_store(tmp_path: Path, scope: dict[str, Any]) -> None:
    towns = [item(f"Q{n}", about("P6", f"Q{n + 50}"), about("P17", "Q99"), label=f"Town {n}") for n in range(2, 6)]
    people = [item(f"Q{n + 50}", label=f"Person {n}") for n in range(1, 6)] + [item("Q99", label="Norway")]
    before = [item("Q1", about("P17", "Q99"), label="Town"), *towns, *people]
    after = [item("Q1", about("P17", "Q99"), about("P6", "Q51"), label="Town"), *towns, *people]
    edits = pa.table({"case_id": ["Q1:P6"], "subject": ["Q1"], "property": ["P6"]})
    with Window(*two_snapshots(tmp_path, before, after), spill=tmp_path / "spill") as window:
        engine, store = GraphEngine(cast(Graph, ScopedGraph(**scope))), StoreEngine()
        window.add("given", edits)
        for one in (engine, store):
            found = one.similar_subjects(window, "FROM given", max_df=10, k=3, pool=2)
            assert pa.concat_tables(found.similar)["subject"].to_pylist() == ["Q2", "Q3", "Q4"]
            assert found.static["subject"].to_pylist() == ["Q2", "Q3"]
        counted = engine.functional_by_data(window, edits, min_subjects=2)
        assert counted.to_pylist() == [{"property": "P6", "subjects": 5, "functional": 1.0}]
        assert engine.functional_by_constraint(window) == store.functional_by_constraint(window)
        towns_of = pa.table({"id": ["Q2", "Q99"]})
        onward = [one.hops_from(window, towns_of, ["P17"], fan=2).to_pylist() for one in (engine, store)]
        back = [one.hops_to(window, towns_of, ["P17"], fan=2, max_df=9).to_pylist() for one in (engine, store)]
        assert onward[0] == onward[1] == [{"subject": "Q2", "property": "P17", "object": "Q99"}]
        assert back[0] == back[1]
        assert [row["object"] for row in back[0]] == ["Q99"]
        ids = edits.select(["subject"]).rename_columns(["id"])
        documents = pa.table({"id": ["Q2", "Q3", "Q51"]})
        nearest = [list(one.nearest_entities(window, ids, documents, n=5)) for one in (engine, store)]
        assert nearest[0] == nearest[1]
        assert nearest[0][0]["neighbour"].to_pylist() == ["Q2", "Q3"]
        with pytest.raises(TimestepError, match="does not contain all statements"):
            engine.changed_statements(window)
