"""The queries saved for Neo4j Browser, on a graph small enough to see the answer."""

from __future__ import annotations

import pytest

from kgedit.graph.connection import Graph
from kgedit.resources import data_folder

pytestmark = pytest.mark.graph

SAVED = sorted(path.stem for path in (data_folder("cypher") / "browser").glob("*.cypher"))
OPEN = 99991231
PARAMETERS = {"item": "club", "property": "P286", "from": 20240101, "to": 20240601, "date": 20240101}
FACTS = [
    ("club", "P286", "old", "f1", 20240101, 20240601),
    ("club", "P286", "new", "f2", 20240601, OPEN),
    ("club", "P118", "league", "f3", 20240101, OPEN),
    ("rival", "P118", "league", "f4", 20240101, OPEN),
    ("new", "P54", "team", "f5", 20240601, OPEN),
    ("fan", "P1", "club", "f0", 20240101, OPEN),
]
EXPECTED = {
    "changed_relation": [["f1"], ["f2"]],
    "changes_around_item": [["f1"], ["f2"]],
    "facts_of_item": [["f2"], ["f3"], ["f1"], ["f0"]],
    "history_of_item": [["f1"], ["f2"]],
    "shared_with_item": [["f3", "f4"]],
    "two_hops_from_changes": [["f2", "f5"]],
}


def test_every_saved_query_is_tried() -> None:
    assert sorted(EXPECTED) == SAVED


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_query_draws_what_its_header_says(graph: Graph, name: str) -> None:
    graph.write(
        """
        UNWIND $facts AS f MERGE (s:Term:Item {id: f[0]}) MERGE (o:Term:Item {id: f[2]})
        CREATE (s)-[:FACT {property: f[1], statement_id: f[3], since: f[4], until: f[5]}]->(o)
        """,
        {"facts": [list(fact) for fact in FACTS]},
    )
    query = (data_folder("cypher") / "browser" / f"{name}.cypher").read_text(encoding="utf-8")
    with graph._driver.session(database=graph.address.database) as session:
        drawn = [
            [edge["statement_id"] for edge in record[0].relationships] for record in session.run(query, PARAMETERS)
        ]
    assert drawn == EXPECTED[name]
