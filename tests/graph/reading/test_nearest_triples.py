"""The neighbours of the WikiFactDiff profile, in the graph and from the store: equal for every subject asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgedit.graph.connection import Graph
from kgedit.graph.queries import read_query
from kgedit.store.snapshots import list_snapshots
from kgedit.timesteps.engines.store import StoreEngine
from kgedit.timesteps.wikifactdiff.cases import UNCHANGED_TRIPLES, find_neighbours
from kgedit.timesteps.wikifactdiff.workspace import open_workspace

pytestmark = pytest.mark.graph

SLICE = """
    CREATE TABLE document AS SELECT id FROM old_entities WHERE kind = 'item';
    CREATE TABLE update_group AS
    WITH changed AS (
        SELECT subject, property FROM (FROM old_facts ANTI JOIN new_facts USING (subject, property, object))
        UNION
        SELECT subject, property FROM (FROM new_facts ANTI JOIN old_facts USING (subject, property, object))
    )
    SELECT subject, property FROM changed WHERE subject[1] = 'Q' ORDER BY md5(subject || property) LIMIT {limit}
"""

OWN = "SELECT neighbour, object, cosine FROM nearest_triple WHERE subject = ? AND property = ? ORDER BY place"


@pytest.mark.parametrize(("world", "limit"), [("sample", 40), pytest.param("pat", 30, marks=pytest.mark.shared)])
def test_the_store_finds_the_neighbours_that_cypher_finds(
    home_of: Callable[[str], Path], tmp_path: Path, world: str, limit: int
) -> None:
    home = home_of(world)
    old, new, *_ = list_snapshots(home)
    window = open_workspace(old, new, spill=tmp_path / "spill")
    workspace = window.connection
    workspace.execute(SLICE.format(limit=limit) + ";" + UNCHANGED_TRIPLES)
    find_neighbours(StoreEngine(), window, n=50, k=5)
    edits = workspace.execute("SELECT subject, property FROM update_group ORDER BY ALL").fetchall()
    query = read_query("nearest_triples")
    found = 0
    with Graph.open(home) as graph:
        for subject, property_id in edits:
            asked = {"subject": subject, "property": property_id, "from": old.date, "to": new.date, "n": 50, "k": 5}
            rows = graph.table(query.text, asked, columns=query.columns).to_pylist()
            own = workspace.execute(OWN, [subject, property_id]).fetchall()
            assert own == [(row["neighbour"], row["object"], row["cosine"]) for row in rows], (subject, property_id)
            found += len(own)
    assert found
