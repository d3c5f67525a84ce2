"""The queries saved for Neo4j Browser, on a graph small enough to see the answer."""

from __future__ import annotations

import pytest

from kgedit.graph.connection import Graph
from kgedit.resources import data_folder

pytestmark = pytest.mark.graph

SAVED = sorted(path.stem for path in (data_folder("cypher") / "browser").glob("*.cypher"))
OPEN = 99999999
PARAMETERS = {"item": "club", "property": "P286", "from": 20240101, "to": 20240601}
VERSIONS = [
    ("club", "P286", "old", "v1", 20240101, 20240601),
    ("club", "P286", "new", "v2", 20240601, OPEN),
    ("club", "P118", "league", "v3", 20240101, OPEN),
    ("new", "P27", "country", "v4", 20240101, OPEN),
]
EXPECTED = {
    "changes_around_item": [["v1"], ["v2"]],
    "history_of_item": [["v1"], ["v2"]],
    "two_hops_from_changes": [["v2", "v4"]],
}


def test_every_saved_query_is_tried() -> None:
    assert sorted(EXPECTED) == SAVED


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_query_draws_what_its_header_says(graph: Graph, name: str) -> None:
    graph.write(
        """
        UNWIND $versions AS v MERGE (s:Term {id: v[0]}) MERGE (o:Term {id: v[2]})
        CREATE (s)-[c:CLAIM {property: v[1], version_id: v[3], statement_id: v[3]}]->(o)
        SET c.valid_from = v[4], c.valid_to = v[5], s.kind = 'item', o.kind = 'item'
        """,
        {"versions": [list(version) for version in VERSIONS]},
    )
    query = (data_folder("cypher") / "browser" / f"{name}.cypher").read_text(encoding="utf-8")
    with graph._driver.session(database=graph.address.database) as session:
        drawn = [
            [value["version_id"] for value in record.values() if "version_id" in value]
            for record in session.run(query, PARAMETERS)
        ]
    assert drawn == EXPECTED[name]
