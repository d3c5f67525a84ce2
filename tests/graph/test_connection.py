"""`Graph` on a real server: reading, writing, and error messages."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from neo4j import ManagedTransaction, Session

from kgedit.cli import main
from kgedit.errors import GraphError
from kgedit.graph import connection
from kgedit.graph.connection import Graph, find_address
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.state import browser_of_home

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


def test_a_query_whose_columns_are_named_is_not_planned_for_their_names(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "UNWIND [2, 1] AS `no. 1` RETURN `no. 1`, `no. 1` * 2 AS twice"
    sent: list[str] = []
    read = Graph._read

    def reads(own: Graph, cypher: str, *rest: Any) -> Any:
        sent.append(cypher)
        return read(own, cypher, *rest)

    monkeypatch.setattr(Graph, "_read", reads)
    assert graph.table(text, columns=["no. 1"]).to_pydict() == {"no. 1": [2, 1]}
    assert [text in cypher for cypher in sent] == [True]
    assert graph.table(text, columns=["twice", "no. 1"]).equals(graph.table(text).select(["twice", "no. 1"]))
    assert [cypher.startswith("EXPLAIN") for cypher in sent] == [False, False, True, False]


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


@pytest.mark.parametrize(
    ("cypher", "said"),
    [
        ("LOAD CSV FROM 'file:///etc/passwd' AS r RETURN r", "LOAD CSV"),
        ("load /* x */ csv FROM 'http://127.0.0.1' AS r RETURN r", "LOAD CSV"),
        ("MATCH (n) RETURN COLLECT { LOAD CSV FROM 'file:///etc/passwd' AS r RETURN r } AS lines", "LOAD CSV"),
        ("TERMINATE TRANSACTIONS 'neo4j-transaction-1'", "ends transactions"),
        ("SHOW TRANSACTIONS YIELD transactionId AS id TERMINATE TRANSACTION id YIELD message RETURN message", "ends"),
        ("// EXPLAIN\nCYPHER 5 TERMINATE TRANSACTION 'neo4j-transaction-1'", "ends transactions"),
        ("CALL dbms.killConnections(['bolt-1'])", "dbms.killConnections"),
        ("CALL `dbms`.`killConnection`('bolt-1')", "dbms.killConnection"),
        ("USE system CALL dbms.killConnection('bolt-1')", "dbms.killConnection"),
        ("RETURN COLLECT { CALL dbms.listConnections() YIELD connectionId RETURN connectionId } AS x", "listConn"),
        ("CALL db.clearQueryCaches()", "db.clearQueryCaches"),
        ("CALL db.stats.clear('QUERIES')", "db.stats.clear"),
        ("CALL tx.setMetaData({a: 1})", "tx.setMetaData"),
        ("SHOW USERS", "administration"),
        ("SHOW USERS YIELD user RETURN user", "administration"),
        ("SHOW CURRENT USER", "administration"),
        ("SHOW DATABASES", "administration"),
        ("USE system SHOW SETTINGS", "administration"),
        ("SHOW SETTINGS", "settings"),
        ("/* SHOW INDEXES */ CYPHER 5 show setting 'server.bolt.enabled' YIELD value RETURN value", "settings"),
        ("EXPLAIN SHOW SETTINGS", "settings"),
        ("SHOW TRANSACTIONS", "what others ask"),
        ("SHOW TRANSACTION 'neo4j-transaction-1' YIELD currentQuery", "what others ask"),
        ("CALL dbms.listConfig()", "dbms.listConfig"),
        ("UNWIND [1, 2] AS i CALL (i) { RETURN i AS j } IN TRANSACTIONS RETURN j", "starts transactions"),
        ("ALTER USER neo4j SET PASSWORD 'changed-changed'", "administration"),
        ("DROP USER neo4j", "administration"),
    ],
)
def test_a_users_query_that_does_more_than_read_the_graph_is_refused(graph: Graph, cypher: str, said: str) -> None:
    with pytest.raises(GraphError, match=f"not run: .*{said}.*only reading is allowed"):
        graph.read_only_query(cypher, timeout=30)


@pytest.mark.parametrize(
    "cypher", ["SHOW ROLES", "SHOW PRIVILEGES", "CREATE DATABASE x", "PROFILE RETURN 1", "RETURN 1;;"]
)
def test_what_this_server_does_not_do_is_an_error_too(graph: Graph, cypher: str) -> None:
    with pytest.raises(GraphError):
        graph.read_only_query(cypher, timeout=30)


@pytest.mark.parametrize(
    "cypher",
    [
        "RETURN 'LOAD CSV FROM x TERMINATE TRANSACTIONS' AS text",
        "MATCH (n:`SHOW USERS`) RETURN n.`CALL dbms.killConnection()` // TERMINATE TRANSACTION",
        "/* DROP USER neo4j */ MATCH (load)-[csv]->() RETURN load, csv",
        "SHOW INDEXES",
        "SHOW CONSTRAINTS",
        "SHOW PROCEDURES",
        "SHOW FUNCTIONS",
        "CALL db.schema.visualization()",
        "CALL dbms.components()",
        "MATCH (n) CALL db.labels() YIELD label RETURN label",
        "EXPLAIN MATCH (n) RETURN n",
        "CYPHER runtime=slotted MATCH (n) RETURN n",
    ],
)
def test_a_users_query_that_reads_is_run_whatever_words_are_in_it(graph: Graph, cypher: str) -> None:
    graph.read_only_query(cypher, timeout=30)


def test_a_users_query_may_search_a_full_text_index(graph: Graph) -> None:
    graph.write("CREATE FULLTEXT INDEX words IF NOT EXISTS FOR (n:Word) ON EACH [n.text]")
    graph.write("CALL db.awaitIndexes(60)")
    try:
        found = graph.read_only_query("CALL db.index.fulltext.queryNodes('words', 'none') YIELD node", timeout=30)
        assert found == []
    finally:
        graph.write("DROP INDEX words")


@pytest.fixture
def requests() -> Iterator[tuple[int, list[str]]]:
    """The port of a web server on this machine, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"a,b\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, paths
    server.shutdown()
    server.server_close()


def test_the_managed_server_loads_no_file_and_no_address(graph: Graph, requests: tuple[int, list[str]]) -> None:
    port, asked = requests
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        # With `rows`, which trusts its caller: here the server is what refuses.
        with pytest.raises(GraphError, match="blocked via"):
            graph.rows("LOAD CSV FROM $url AS row RETURN row", {"url": f"http://{host}:{port}/x"})
    for url in ("file:///etc/passwd", "file:///password"):
        with pytest.raises(GraphError, match="allow_csv_import_from_file_urls"):
            graph.rows("LOAD CSV FROM $url AS row RETURN row", {"url": url})
    assert asked == []


def test_an_integer_of_more_than_64_bits_is_refused_in_a_sentence(graph: Graph) -> None:
    for given in (2**63, [{"a": -(2**64)}]):
        with pytest.raises(GraphError, match=r"Parameter limit: .* does not fit 64 bits"):
            graph.rows("RETURN $limit AS x", {"limit": given})
    ran = CliRunner().invoke(main, ["query", "find_terms", "-p", "name=x", "-p", f"limit={10**20}"])
    assert ran.exit_code == 1
    assert "does not fit 64 bits" in ran.stderr


def test_a_server_that_is_too_old_is_refused_when_connecting(
    graph: Graph, graph_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgedit.graph.bolt.OLDEST_VERSION", (2099, 1))
    with pytest.raises(GraphError, match=r"Neo4j 5\.26\.\d+ at bolt://.* is too old; kgedit needs 2099\.1 or newer"):
        Graph.open(graph_home)


def test_labels_reach_the_terminal_without_their_escapes(graph: Graph) -> None:
    label = "\x1b[31mred\x07"
    graph.write("CREATE (:Term {id: 'Q1', label: $label})", {"label": label})
    command = ["query", "--cypher", "MATCH (t:Term) RETURN t.label AS label, t", "--format"]
    assert "␛[31mred␇" in CliRunner().invoke(main, [*command, "table"]).stdout
    assert json.loads(CliRunner().invoke(main, [*command, "json"]).stdout)[0]["label"] == label
    for form in ("table", "csv"):
        assert "\x1b" not in CliRunner().invoke(main, [*command, form]).stdout


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
    with pytest.raises(GraphError, match="did not finish within 1 s"):
        graph.read_only_query(endless, timeout=1)


def test_an_outside_server_is_asked_for_the_port_of_its_browser(
    graph: Graph, server: ManagedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    outside = replace(server.address(), managed=False)  # its Browser does not know which server is meant
    assert browser_of_home(tmp_path)() == outside.browser_page()


def test_a_row_without_end_is_given_up_too(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server looks at its time limit between rows, and this is one, which takes seconds to send and to read."""
    monkeypatch.setattr(connection, "SECONDS_OF_GRACE", 0.0)
    with pytest.raises(GraphError, match=r"did not finish within 0\.2 s"):
        graph.read_only_query("RETURN range(1, 20000000) AS numbers", timeout=0.2)
    assert graph.rows("RETURN 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize("call", [Graph.rows, Graph.write])
def test_a_query_out_of_memory_fails_once_and_says_what_to_do(
    graph: Graph, call, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    def counted(run):
        def counting(*args, **kwargs):
            nonlocal attempts
            attempts += 1
            return run(*args, **kwargs)

        return counting

    with monkeypatch.context() as patched:
        patched.setattr(Session, "run", counted(Session.run))
        patched.setattr(ManagedTransaction, "run", counted(ManagedTransaction.run))
        with pytest.raises(GraphError, match="KGEDIT_GRAPH_HEAP"):
            call(graph, "UNWIND range(1, 300000000) AS a WITH collect(a) AS numbers RETURN size(numbers) AS n")
    # The driver's own loop would try again for 30 s.
    assert attempts == 1
    assert graph.rows("RETURN 1 AS one") == [{"one": 1}]


def test_a_database_with_other_nodes_is_refused(graph: Graph) -> None:
    graph.write("CREATE (:Term {id: 'Q1'}), (:Snapshot {date: 20240101})")
    graph.refuse_foreign_content()
    graph.write("CREATE (:Person), (:Person), ()")
    with pytest.raises(GraphError, match="contains 3 nodes that are not kgedit's"):
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
