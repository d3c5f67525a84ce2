"""The store gives the same graph in every way: written at once, snapshot by snapshot, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.dumps import entity, entity_value, snak, statement, write_dump

from graph.worlds import content, dumps, expected_content, kgedit, load_all, load_command
from kgedit.cli import main
from kgedit.errors import GraphError
from kgedit.graph.connection import Graph
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.queries import schema_names, write_query
from kgedit.graph.reading import find_terms
from kgedit.graph.state import import_mark, missing_indexes
from kgedit.store.scope import Scope
from kgedit.store.snapshots import list_snapshots
from kgedit.store.timeline import FACT_COLUMNS
from kgedit.verbs.home import Home
from kgedit.wikidata.times import OPEN_END

pytestmark = pytest.mark.graph


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    return dumps("sample", tmp_path_factory.mktemp("dumps"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, files: list[tuple[Path, str]]) -> Iterator[Path]:
    """A home that holds the first snapshot of the sample; each test brings it where it needs it."""
    home = tmp_path_factory.mktemp("projection")
    load_all(home, files[:1])
    yield home
    ManagedServer(home).stop()


def in_small_batches(home: Path, command: list[str | Path]) -> subprocess.Popen[str]:
    """A load in a separate process that writes a few rows per batch, so that it can be interrupted.

    It waits for a second, not half a minute, for a server that was killed between two transactions.
    """
    code = (
        "import sys; from kgedit.graph import bolt, writing; writing.BATCH_ROWS = 5; bolt._SECONDS_TO_RETRY = 1; "
        "from kgedit.cli import main; main(sys.argv[1:])"
    )
    environment = dict(os.environ, KGEDIT_HOME=str(home))
    arguments = [sys.executable, "-c", code, *map(str, command)]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_a_written_batch(home: Path, process: subprocess.Popen[str]) -> None:
    with Graph.open(home) as graph:
        while process.poll() is None:
            rows = graph.rows("MATCH (l:Load) RETURN sum(l.written) AS written")
            if rows and rows[0]["written"] > 5:
                return
            time.sleep(0.005)
    raise AssertionError(f"The load ended before it could be caught: {process.communicate()}")


def test_first_snapshot_is_imported_whole(home: Path) -> None:
    with Graph.open(home) as graph:
        assert content(graph) == expected_content(home)


def test_a_load_that_is_killed_goes_on_to_the_same_graph(home: Path, files: list[tuple[Path, str]]) -> None:
    command = load_command(*files[1])
    process = in_small_batches(home, command)
    wait_for_a_written_batch(home, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with Graph.open(home) as graph:
        assert content(graph) != expected_content(home)
    kgedit(home, *command)
    with Graph.open(home) as graph:
        assert content(graph) == expected_content(home)


def test_a_server_that_is_killed_in_mid_load_ends_in_the_same_graph(home: Path, files: list[tuple[Path, str]]) -> None:
    command = load_command(*files[2])
    process = in_small_batches(home, command)
    wait_for_a_written_batch(home, process)
    pid = ManagedServer(home).pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert process.wait(timeout=300) != 0
    kgedit(home, *command)
    with Graph.open(home) as graph:
        assert content(graph) == expected_content(home)


def test_counts_in_the_manifest_equal_counts_in_the_graph(home: Path) -> None:
    counts = {
        "facts": "MATCH ()-[f:FACT]->() WHERE f.since <= $d < f.until RETURN count(f) AS n",
        "claims_with_value": "MATCH ()-[c:CLAIM]->() WHERE c.since <= $d < c.until RETURN count(c) AS n",
        "redirected": "MATCH ()-[r:REDIRECT]->() WHERE r.since <= $d < r.until RETURN count(r) AS n",
        "entities": "MATCH (t:Term) WHERE size([d IN t.presence WHERE d <= $d]) % 2 = 1 RETURN count(t) AS n",
    }
    with Graph.open(home) as graph:
        for snapshot in list_snapshots(home):
            for name, query in counts.items():
                assert graph.rows(query, {"d": snapshot.date})[0]["n"] == snapshot.manifest[name]


def test_loading_the_same_date_again_changes_nothing(home: Path, files: list[tuple[Path, str]]) -> None:
    with Graph.open(home) as graph:
        before = content(graph)
    load_all(home, files)
    with Graph.open(home) as graph:
        assert content(graph) == before


def drop_indexes(graph: Graph) -> None:
    """Leave the graph as an import leaves it that is killed before its indexes are built."""
    for name, kind in schema_names().items():
        graph.write(f"DROP {kind} {name}")


def test_a_graph_without_indexes_is_repaired_by_the_next_load(home: Path, files: list[tuple[Path, str]]) -> None:
    with Graph.open(home) as graph:
        before = content(graph)
        drop_indexes(graph)
        result = CliRunner().invoke(main, [*map(str, load_command(*files[2]))], env={"KGEDIT_HOME": str(home)})
        assert result.exit_code == 0, result.output
        assert (
            "The graph lacks indexes (snapshot_date, term_id, claim_since, claim_until, fact_property_since"
            in result.stderr
        )
        assert missing_indexes(graph) == []
        assert content(graph) == before


def test_a_graph_without_indexes_is_repaired_by_the_command_that_reads_it(home: Path) -> None:
    query = ["query", "changed_edges", "-p", "from=2021-01-04", "-p", "to=2023-02-27"]
    with Graph.open(home) as graph:
        expected = kgedit(home, *query)
        drop_indexes(graph)
        assert "term_id" in CliRunner().invoke(main, ["graph", "status"], env={"KGEDIT_HOME": str(home)}).stderr
        assert kgedit(home, *query) == expected
        assert missing_indexes(graph) == []


def test_an_import_that_was_killed_before_its_indexes_is_finished_and_not_repeated(home: Path) -> None:
    with Graph.open(home) as graph:
        before = content(graph)
        held = {"Term": len(before["Term"]), "FACT": len(before["FACT"])}
        drop_indexes(graph)
        graph.write("MATCH (s:Snapshot) SET s += $mark", {"mark": import_mark(held)})
        assert graph.snapshot_dates() == []
        finished = Home(home).update_graph()
        assert (finished.rebuilt, missing_indexes(graph), content(graph)) == (0, [], before)
        assert "imported" not in graph.rows("MATCH (s:Snapshot) RETURN properties(s) AS p")[0]["p"]


def test_an_import_that_lost_rows_is_not_marked_complete(home: Path) -> None:
    with Graph.open(home) as graph:
        graph.write("MATCH (s:Snapshot) SET s += $mark", {"mark": import_mark({"Term": 1})})
        with pytest.raises(GraphError, match=r"and 1 were given to the import.\n.*kgedit graph rebuild"):
            Home(home).update_graph()
        assert graph.snapshot_dates() == []
        graph.write("MATCH (s:Snapshot) SET s.state = 'complete' REMOVE s.imported")


def test_an_older_date_than_the_latest_is_put_in_its_place(home: Path, files: list[tuple[Path, str]]) -> None:
    path, _ = files[0]
    kgedit(home, "load-dump", path, "--date", "2020-06-01")
    with Graph.open(home) as graph:
        assert content(graph) == expected_content(home)
        assert graph.rows("MATCH (s:Snapshot) RETURN min(s.date) AS first")[0]["first"] == 20200601


def test_nothing_is_there_twice_at_once(home: Path) -> None:
    with Graph.open(home) as graph:
        for kind, key in (("FACT", "property"), ("CLAIM", "statement_id")):
            overlaps = graph.rows(
                f"MATCH (s)-[a:{kind}]->(o), (s)-[b:{kind}]->(o) WHERE a.{key} = b.{key} AND elementId(a) < elementId(b) "  # noqa: E501
                "AND a.since < b.until AND b.since < a.until RETURN a, b"
            )
            assert overlaps == []
            lasting = f"MATCH ()-[e:{kind} {{until: $open}}]->() RETURN count(e) AS n"
            assert graph.rows(lasting, {"open": OPEN_END})[0]["n"] > 0


def test_a_load_with_another_scope_than_the_graph_has_is_refused(home: Path, files: list[tuple[Path, str]]) -> None:
    with Graph.open(home) as graph:
        before = content(graph)
    command = [*map(str, load_command(*files[1])), "--no-evidence"]
    result = CliRunner().invoke(main, command, env={"KGEDIT_HOME": str(home)})
    assert result.exit_code == 1
    assert "kgedit graph rebuild" in result.stderr
    with Graph.open(home) as graph:
        assert content(graph) == before


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        (["--property", "P6", "--property", "P39"], Scope(properties=("P6", "P39"))),
        (["--around-changes"], Scope(around_changes=True)),
        (["--changed-pairs", "--no-evidence"], Scope(changed_pairs=True, evidence=False)),
        (["--facts", "items", "--no-evidence"], Scope(items_only=True, evidence=False)),
    ],
    ids=["two properties", "around changes", "changed pairs", "items without evidence"],
)
def test_a_graph_of_another_scope_is_the_same_built_whole_and_by_deltas(
    home: Path, graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch,
    options: list[str], scope: Scope,
) -> None:  # fmt: skip
    # A scope that follows the changes is never written by deltas: its import is tested below, with a redirect. That of
    # two properties is written over Bolt alone.
    if scope.items_only:
        kgedit(home, "graph", "rebuild", *options)
        with Graph.open(home) as managed:
            assert content(managed) == expected_content(home, scope)
        assert scope.describe() in kgedit(home, "graph", "status")
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    kgedit(tmp_path, *load_command(*files[0]), *options)
    load_all(tmp_path, files[1:])
    assert content(graph) == expected_content(tmp_path, scope)
    assert scope.describe() in kgedit(tmp_path, "graph", "status")


def test_a_redirect_out_of_the_neighbourhood_is_imported_with_its_target(tmp_path: Path) -> None:
    """The import tool refuses an edge that is "referring to missing node", here Q9, which no change names."""
    before = [
        entity("Q1", statement(snak("P6", entity_value("Q3")))),
        *(entity(name) for name in ("Q3", "Q4", "Q9")),
    ]
    after = [entity("Q1", statement(snak("P6", entity_value("Q4")))), *(entity(name) for name in ("Q4", "Q9"))]
    redirects = tmp_path / "redirects.tsv"
    redirects.write_text("Q3\tQ9\t2023-01-01\n", encoding="utf-8")
    home = tmp_path / "home"
    try:
        for date, entities, scope in (
            ("2021-01-04", before, "--no-graph"),
            ("2023-02-27", after, "--around-changes"),
        ):
            dump = write_dump(tmp_path / f"{date}.json", entities)
            kgedit(home, "load-dump", dump, "--date", date, "--redirects", redirects, scope)
        with Graph.open(home) as graph:
            assert graph.rows("MATCH (s)-[:REDIRECT]->(t) RETURN s.id AS source, t.id AS target") == [
                {"source": "Q3", "target": "Q9"}
            ]
            assert content(graph) == expected_content(home, Scope(around_changes=True))
    finally:
        ManagedServer(home).stop()


def test_a_query_of_the_evidence_says_that_the_graph_has_none(home: Path) -> None:
    if Scope(items_only=True, evidence=False).describe() not in kgedit(home, "graph", "status"):  # as left above
        kgedit(home, "graph", "rebuild", "--no-evidence")
    command = ["query", "statement_history", "-p", "subject=Q183", "-p", "property=P6"]
    result = CliRunner().invoke(main, command, env={"KGEDIT_HOME": str(home)})
    assert result.exit_code == 1
    assert "kgedit graph rebuild --evidence" in result.stderr


def test_find_prints_ids_labels_and_descriptions(home: Path) -> None:
    found = [line.split(",")[:2] for line in kgedit(home, "find", "germany", "--format", "csv").splitlines()]
    assert found[:2] == [["id", "label"], ["Q183", "Germany"]]
    assert kgedit(home, "find", 'nobody " AND *').strip() == "no rows"
    assert CliRunner().invoke(main, ["find", "+-"], env={"KGEDIT_HOME": str(home)}).exit_code == 1


def test_names_of_stop_words_are_found(home: Path) -> None:
    with Graph.open(home) as graph:
        made = {"id": "Q999999002", "label": "It"}
        graph.write("CREATE (:Term:Item {id: $id, label: $label, aliases: ['And the Will']})", made)
        try:
            for name in ("it", "And the will"):
                assert find_terms(graph, name, limit=3)["id"].to_pylist() == ["Q999999002"]
            assert find_terms(graph, "and", limit=3).num_rows == 0
        finally:
            graph.write("MATCH (t:Term {id: $id}) DELETE t", made)


def test_a_server_from_the_environment_takes_the_first_snapshot_over_bolt_and_the_others_as_deltas(
    graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    load_all(tmp_path, files)
    drop_indexes(graph)
    load_all(tmp_path, files[2:])
    assert missing_indexes(graph) == []
    assert content(graph) == expected_content(tmp_path)
    assert not ManagedServer(tmp_path).running()


def test_a_graph_that_does_not_fit_the_store_is_not_touched_on_an_outside_server_until_it_is_rebuilt(
    graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    graph.write("CREATE (:Snapshot {date: 19991231, state: 'complete', sha256: 'of something else'})")
    path, date = files[0]
    result = CliRunner().invoke(main, ["load-dump", str(path), "--date", date], env={"KGEDIT_HOME": str(tmp_path)})
    assert result.exit_code == 1
    assert "kgedit graph rebuild" in result.stderr
    assert graph.rows("MATCH (n) RETURN count(n) AS n")[0]["n"] == 1
    kgedit(tmp_path, "graph", "rebuild")
    assert content(graph) == expected_content(tmp_path)


def test_an_empty_outside_database_can_be_rebuilt(
    graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, date in files:
        kgedit(tmp_path, *load_command(path, date), "--no-graph")
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    kgedit(tmp_path, "graph", "rebuild")
    assert content(graph) == expected_content(tmp_path)


def test_a_whole_graph_that_was_half_written_over_bolt_is_finished(
    graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    command = load_command(*files[0])
    process = in_small_batches(tmp_path, command)
    wait_for_a_written_batch(tmp_path, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kgedit(tmp_path, *command)
    assert content(graph) == expected_content(tmp_path)


def test_a_batch_that_is_sent_twice_is_applied_once(graph: Graph) -> None:
    graph.write("CREATE (:Term {id: 'Q1'}), (:Term {id: 'Q2'}), (:Load {id: 'facts', written: 0})")
    row = dict.fromkeys(FACT_COLUMNS) | {"subject": "Q1", "object": "Q2", "property": "P1", "since": 1, "until": 2}
    batch = {"load": "facts", "before": 0, "after": 1, "rows": [row]}
    assert [graph.write(write_query("facts_begun"), batch)[0]["done"] for _ in range(2)] == [1, 0]
    assert graph.rows("MATCH ()-[f:FACT]->() RETURN count(f) AS n")[0]["n"] == 1


def test_a_graph_that_lacks_what_a_delta_ends_is_told_to_be_rebuilt(
    graph: Graph, files: list[tuple[Path, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    kgedit(tmp_path, *load_command(*files[0]), "--no-evidence")
    graph.write("MATCH (:Term {id: 'Q183'})-[f:FACT]->() DELETE f")
    twin, date = tmp_path / "later.json", "2030-01-01"
    twin.write_bytes(b'[\n{"type": "item", "id": "Q183", "labels": {}, "claims": {}}\n]\n')
    for _ in range(2):  # nothing of the batch was written: giving the command again does not pass over it
        result = CliRunner().invoke(main, ["load-dump", str(twin), "--date", date], env={"KGEDIT_HOME": str(tmp_path)})
        assert result.exit_code == 1
        assert "Build it again: kgedit graph rebuild" in result.stderr
    kgedit(tmp_path, "graph", "rebuild", "--evidence")
    assert content(graph) == expected_content(tmp_path)
