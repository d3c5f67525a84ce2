"""`Graph` on a real server: reading, writing, and what is refused in which words."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from kgedit.errors import GraphError
from kgedit.graph.connection import Graph, find_address

pytestmark = pytest.mark.graph


def test_rows_come_back_as_they_were_written(graph: Graph) -> None:
    written = graph.write(
        "UNWIND $rows AS row CREATE (t:Term) SET t = row RETURN t.id AS id ORDER BY id",
        {"rows": [{"id": "Q2", "label": 'quoted " and é'}, {"id": "Q1", "label": None}]},
    )
    assert written == [{"id": "Q1"}, {"id": "Q2"}]
    assert graph.rows("MATCH (t:Term) WHERE t.id = $id RETURN t.label AS label", {"id": "Q2"}) == [
        {"label": 'quoted " and é'}
    ]


def test_a_table_of_more_rows_than_a_batch_keeps_order_types_and_nulls(graph: Graph) -> None:
    table = graph.table(
        """
        UNWIND range(0, 11999) AS i
        RETURN i AS integer, CASE WHEN i < 6000 THEN NULL ELSE i / 2.0 END AS float, toString(i) AS text,
               i % 2 = 0 AS flag, CASE WHEN i < 6000 THEN [] ELSE ['a', toString(i)] END AS texts, NULL AS nothing
        """
    )
    assert table.schema == pa.schema(
        [
            ("integer", pa.int64()),
            ("float", pa.float64()),
            ("text", pa.string()),
            ("flag", pa.bool_()),
            ("texts", pa.list_(pa.string())),
            ("nothing", pa.null()),
        ]
    )
    assert table["integer"].to_pylist() == list(range(12000))
    assert table["float"].null_count == 6000
    assert table["float"][11999].as_py() == 5999.5
    assert table["texts"][0].as_py() == []
    assert table["texts"][11999].as_py() == ["a", "11999"]


def test_an_empty_table_keeps_its_column_names(graph: Graph) -> None:
    table = graph.table("MATCH (t:Term {id: 'Q404'}) RETURN t.id AS id, t.label AS label")
    assert (table.column_names, table.num_rows) == (["id", "label"], 0)


def test_a_table_of_nodes_or_of_mixed_types_is_refused_by_column_name(graph: Graph) -> None:
    graph.write("CREATE (:Term {id: 'Q1'})")
    with pytest.raises(GraphError, match="'node'"):
        graph.table("MATCH (node:Term) RETURN node.id AS id, node")
    with pytest.raises(GraphError, match="'mixed'"):
        graph.table("UNWIND [1, 'one'] AS mixed RETURN mixed")


@pytest.mark.parametrize(
    "cypher",
    [
        "CREATE (:Term {id: 'Q9'})",
        "MATCH (t:Term) SET t.label = 'changed'",
        "MATCH (t:Term) DETACH DELETE t",
        "UNWIND [1, 2] AS i CALL (i) { CREATE (:Term) } IN TRANSACTIONS",
        "CREATE INDEX refused FOR (t:Term) ON (t.refused)",
        "CREATE USER refused SET PASSWORD 'refused-refused'",
        "CALL db.createLabel('Refused')",
    ],
)
def test_a_users_query_that_writes_is_refused_and_changes_nothing(graph: Graph, cypher: str) -> None:
    graph.write("CREATE (:Term {id: 'Q1', label: 'kept'})")
    with pytest.raises(GraphError, match="only reading is allowed"):
        graph.read_only_query(cypher, timeout=30)
    assert graph.rows("MATCH (n) RETURN n.label AS label") == [{"label": "kept"}]
    assert graph.rows("SHOW INDEXES YIELD name WHERE name = 'refused' RETURN name") == []


def test_a_users_query_returns_plain_values_and_no_more_rows_than_asked(graph: Graph) -> None:
    graph.write("CREATE (:Term {id: 'Q1'})-[:CLAIM {property: 'P1'}]->(:Term {id: 'Q2'})")
    found = graph.read_only_query("MATCH (a)-[c:CLAIM]->(b) RETURN a, properties(c) AS claim, b.id AS id", timeout=30)
    assert found == [{"a": {"id": "Q1"}, "claim": {"property": "P1"}, "id": "Q2"}]
    assert len(graph.read_only_query("UNWIND range(1, 100000) AS i RETURN i", timeout=30, limit=7)) == 7


def test_a_wrong_query_is_refused_with_the_servers_own_words(graph: Graph) -> None:
    with pytest.raises(GraphError, match="RETRUN"):
        graph.rows("RETRUN 1")


def test_a_query_that_takes_too_long_is_given_up(graph: Graph) -> None:
    endless = "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b WITH a + b AS c RETURN sum(c) AS total"
    began = time.monotonic()
    with pytest.raises(GraphError, match="did not finish within 1 s"):
        graph.read_only_query(endless, timeout=1)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("call", [Graph.rows, Graph.write])
def test_a_query_out_of_memory_fails_once_and_says_what_to_do(graph: Graph, call) -> None:
    began = time.monotonic()
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_HEAP"):
        call(graph, "UNWIND range(1, 300000000) AS a WITH collect(a) AS numbers RETURN size(numbers) AS n")
    # The driver's own loop would try for 30 s.
    assert time.monotonic() - began < 25
    assert graph.rows("RETURN 1 AS one") == [{"one": 1}]


def test_a_database_with_other_nodes_is_refused(graph: Graph) -> None:
    graph.write("CREATE (:Term {id: 'Q1'}), (:Snapshot {date: 20240101})")
    graph.refuse_foreign_content()
    graph.write("CREATE (:Person), (:Person), ()")
    with pytest.raises(GraphError, match="holds 3 nodes that are not kgedit's"):
        graph.refuse_foreign_content()


def test_foreign_nodes_are_counted_without_looking_at_nodes(graph: Graph) -> None:
    for query in ("MATCH (n) RETURN count(n) AS nodes", "MATCH (n:Term) RETURN count(n) AS nodes"):
        plan = graph._driver.execute_query("EXPLAIN " + query, database_=graph.address.database).summary.plan
        assert "NodeCountFromCountStore" in str(plan)


def test_the_environment_names_another_server(graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph.write("CREATE (:Term {id: 'Q5'})")
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    assert not find_address(tmp_path).managed
    with Graph.open(tmp_path) as other:
        assert other.rows("MATCH (t:Term) RETURN t.id AS id") == [{"id": "Q5"}]
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_password_or_database_says_which_variable_to_set(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", "wrong")
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_PASSWORD"):
        Graph.open(tmp_path)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    monkeypatch.setenv("KGEDIT_GRAPH_DATABASE", "absent")
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_DATABASE"):
        Graph.open(tmp_path)


def test_nothing_of_the_drivers_chatter_reaches_the_user(graph: Graph) -> None:
    program = (
        "from pathlib import Path; from kgedit.graph.connection import Graph; from kgedit.resources import home\n"
        "with Graph.open(home()) as graph: print(graph.rows('MATCH (n:NoSuchLabel) RETURN n.nothing AS x'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")
