"""The store becomes the same graph on every way there: at once, snapshot by snapshot, and after a kill."""

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

from graph.worlds import content, dumps, expected_content, kgedit, load_all, load_command
from kgedit.cli import main
from kgedit.graph.connection import Graph
from kgedit.graph.server import ManagedServer
from kgedit.store.snapshots import list_snapshots
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
    """A load in a process of its own that writes a few rows a batch, so that it can be caught half-way."""
    code = (
        "import sys; from kgedit.graph import projection; projection.BATCH_ROWS = 5; "
        "from kgedit.cli import main; main(sys.argv[1:])"
    )
    environment = dict(os.environ, KGEDIT_HOME=str(home))
    arguments = [sys.executable, "-c", code, *map(str, command)]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_a_written_batch(home: Path, process: subprocess.Popen[str]) -> None:
    with Graph.open(home) as graph:
        while process.poll() is None:
            rows = graph.rows("MATCH (s:Snapshot {state: 'loading'}) RETURN s.step AS step, s.written AS written")
            if rows and (rows[0]["step"] != "terms" or rows[0]["written"] > 5):
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
    with Graph.open(home) as graph:
        for snapshot in list_snapshots(home):
            alive = "MATCH ()-[c:CLAIM]->() WHERE c.valid_from <= $d AND c.valid_to > $d RETURN count(c) AS n"
            present = (
                "MATCH (t:Term) WHERE any(i IN range(0, size(coalesce(t.presence, [])) - 1, 2) "
                "WHERE t.presence[i] <= $d < t.presence[i + 1]) RETURN count(t) AS n"
            )
            date = {"d": snapshot.date}
            assert graph.rows(alive, date)[0]["n"] == snapshot.manifest["claims_with_value"]
            assert graph.rows(present, date)[0]["n"] == snapshot.manifest["entities"]


def test_loading_the_same_date_again_changes_nothing(home: Path, files: list[tuple[Path, str]]) -> None:
    with Graph.open(home) as graph:
        before = content(graph)
    load_all(home, files)
    with Graph.open(home) as graph:
        assert content(graph) == before


def test_an_older_date_than_the_latest_is_put_in_its_place(home: Path, files: list[tuple[Path, str]]) -> None:
    path, _ = files[0]
    kgedit(home, "load-dump", path, "--date", "2020-06-01")
    with Graph.open(home) as graph:
        assert content(graph) == expected_content(home)
        assert graph.rows("MATCH (s:Snapshot) RETURN min(s.date) AS first")[0]["first"] == 20200601


def test_no_statement_has_two_versions_at_once(home: Path) -> None:
    with Graph.open(home) as graph:
        overlaps = graph.rows(
            "MATCH ()-[a:CLAIM]->() MATCH ()-[b:CLAIM {statement_id: a.statement_id}]->() "
            "WHERE a.version_id < b.version_id AND a.valid_from < b.valid_to AND b.valid_from < a.valid_to "
            "RETURN a.statement_id AS statement"
        )
        lasting = graph.rows("MATCH ()-[c:CLAIM {valid_to: $open}]->() RETURN count(c) AS n", {"open": OPEN_END})
    assert overlaps == []
    assert lasting[0]["n"] > 0


def test_a_server_from_the_environment_takes_every_snapshot_as_a_delta(
    graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    load_all(tmp_path, files)
    assert content(graph) == expected_content(tmp_path)
    assert not ManagedServer(tmp_path).running()


def test_a_graph_that_does_not_fit_the_store_is_not_touched_on_an_outside_server(
    graph: Graph, tmp_path: Path, files: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", graph.address.uri)
    monkeypatch.setenv("KGEDIT_GRAPH_PASSWORD", graph.address.password)
    graph.write("CREATE (:Snapshot {date: 19991231, state: 'complete', sha256: 'of something else'})")
    path, date = files[0]
    result = CliRunner().invoke(main, ["load-dump", str(path), "--date", date], env={"KGEDIT_HOME": str(tmp_path)})
    assert result.exit_code == 1
    assert "Empty the database" in result.stderr
    assert graph.rows("MATCH (n) RETURN count(n) AS n")[0]["n"] == 1
