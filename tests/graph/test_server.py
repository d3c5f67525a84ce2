"""The managed server: started, found, killed, filled, half filled."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest
from click.testing import CliRunner
from world.patience import wait_until

from kgedit.cli import main
from kgedit.errors import GraphError
from kgedit.graph.bolt import answers
from kgedit.graph.connection import Graph
from kgedit.graph.managed.processes import WATCHER, find_process
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.managed.settings import is_free

pytestmark = pytest.mark.graph

Files = dict[str, dict[str, list[Path]]]

TERMS = "id:ID,kind,label\n"
CLAIMS = ":START_ID,:END_ID,version_id,property,valid_from:long,restricted:boolean\n"


@pytest.fixture
def csv(tmp_path: Path) -> Files:
    """Three terms, two claims, one snapshot; headers in separate files, and in the same file."""
    files = {
        "terms-header.csv": TERMS,
        "terms.csv": 'Q1,item,"a ""quoted"" name, with a comma"\nQ2,item,\nQ3,item,three\n',
        "claims-header.csv": CLAIMS,
        "claims.csv": "Q1,Q2,v1,P1,20240101,false\nQ2,Q3,v2,P1,20240101,true\n",
        "snapshots.csv": "date:long,state\n20240101,complete\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return {
        "nodes": {
            "Term": [tmp_path / "terms-header.csv", tmp_path / "terms.csv"],
            "Snapshot": [tmp_path / "snapshots.csv"],
        },
        "relationships": {"CLAIM": [tmp_path / "claims-header.csv", tmp_path / "claims.csv"]},
    }


def test_starting_twice_gives_one_server_and_one_address(server: ManagedServer) -> None:
    first, pid = server.start(), server.pid()
    assert (server.start(), server.pid()) == (first, pid)
    assert first.managed
    assert first.uri.startswith("bolt://127.0.0.1:")


def test_the_password_is_the_users_alone_and_in_no_command_line(server: ManagedServer) -> None:
    address = server.start()
    assert server.password_file.stat().st_mode & 0o777 == 0o600
    assert server.folder.stat().st_mode & 0o777 == 0o700
    assert address.password not in repr(address)
    running = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True)
    assert server.folder.as_posix() in running.stdout
    assert address.password not in running.stdout


def test_it_is_stopped_by_the_command_line(server: ManagedServer) -> None:
    server.start()
    assert "is stopped" in CliRunner().invoke(main, ["graph", "stop"]).stderr
    assert not server.running()
    assert "was not running" in CliRunner().invoke(main, ["graph", "stop"]).stderr


def test_two_processes_that_start_it_at_once_share_one_server(server: ManagedServer, graph_home: Path) -> None:
    server.stop()
    command = [sys.executable, "-c", "from kgedit.cli import main; main(['graph', 'start'])"]
    starters = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ended = [starter.communicate(timeout=120) for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0], ended
    assert ended[0][0] == ended[1][0]
    assert sum("Starting Neo4j" in said for _, said in ended) == 1
    processes = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert sum(f"--home-dir={server.folder} " in line for line in processes.splitlines()) == 1


def test_after_a_kill_it_starts_again_with_its_data_and_on_another_port_if_its_own_was_taken(
    server: ManagedServer, graph: Graph, graph_home: Path
) -> None:
    graph.write("CREATE (:Term {id: 'Q77'})")
    pid, port = server.pid(), urlsplit(graph.address.uri).port
    assert pid is not None
    assert port is not None
    os.kill(pid, signal.SIGKILL)
    # A dying process loses its command line a moment before its sockets.
    while server.running() or not is_free(port):
        time.sleep(0.05)
    with pytest.raises(GraphError, match="kgedit graph start"):
        graph.rows("RETURN 1 AS one")
    with socket.create_server(("127.0.0.1", port)), Graph.open(graph_home) as again:
        assert again.rows("MATCH (t:Term) RETURN t.id AS id") == [{"id": "Q77"}]
        assert again.address.uri != graph.address.uri


def test_a_bulk_import_replaces_the_graph(server: ManagedServer, graph: Graph, graph_home: Path, csv: Files) -> None:
    graph.write("CREATE (:Term {id: 'old'})")
    server.bulk_import(**csv)
    assert not server.running()
    with Graph.open(graph_home) as filled:
        assert filled.rows("MATCH (t:Term) RETURN t.id AS id, t.label AS label ORDER BY id") == [
            {"id": "Q1", "label": 'a "quoted" name, with a comma'},
            {"id": "Q2", "label": None},
            {"id": "Q3", "label": "three"},
        ]
        assert filled.rows(
            "MATCH (s)-[c:CLAIM]->(o) RETURN s.id AS s, o.id AS o, properties(c) AS claim ORDER BY s"
        ) == [
            {
                "s": subject,
                "o": target,
                "claim": {"version_id": version, "property": "P1", "valid_from": 20240101, "restricted": restricted},
            }
            for subject, target, version, restricted in (("Q1", "Q2", "v1", False), ("Q2", "Q3", "v2", True))
        ]
        assert filled.rows("MATCH (s:Snapshot) RETURN s.date AS date") == [{"date": 20240101}]
    # Neo4j would keep 256 MB of transaction log for these four nodes.
    assert server.status().store_bytes < 4_000_000


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("Q1,Q404,v9,P1,20240101,false\n", "missing node Q404"),
        ("Q1,Q2,v9,P1,not a number,false\n", "not a number"),
        ("Q1,Q2,v9,P1,20240101,false,more\n", "Extra column"),
    ],
    ids=["unknown term", "wrong type", "too many columns"],
)
def test_one_bad_row_ends_an_import_and_the_half_graph_is_not_served(
    tmp_path: Path, graph_home: Path, csv: Files, bad: str, said: str
) -> None:
    with csv["relationships"]["CLAIM"][1].open("a", encoding="utf-8") as claims:
        claims.write(bad)
    other = ManagedServer(tmp_path / "home")
    with pytest.raises(GraphError, match=said):
        other.bulk_import(**csv)
    with pytest.raises(GraphError, match="half imported"):
        other.start()
    assert other.status().import_unfinished
    assert not other.running()


def import_runs(pid: int) -> bool:
    """Whether a process has started Neo4j's tool."""
    try:
        return any("org.neo4j.cli.AdminTool" in child.cmdline() for child in psutil.Process(pid).children())
    except psutil.Error:  # one has just ended
        return False


def test_an_import_killed_half_way_is_refused_and_then_simply_done_again(
    tmp_path: Path, graph_home: Path, csv: Files
) -> None:
    home = tmp_path / "home"
    other = ManagedServer(home)
    with csv["nodes"]["Term"][1].open("a", encoding="utf-8") as terms:
        terms.writelines(f"Q{i},item,label {i}\n" for i in range(10, 150_000))
    files = {kind: {name: [str(path) for path in paths] for name, paths in csv[kind].items()} for kind in csv}
    program = (
        "import json, sys; from pathlib import Path; from kgedit.graph.managed.server import ManagedServer\n"
        "files = {k: {n: [Path(f) for f in fs] for n, fs in g.items()} for k, g in json.loads(sys.argv[2]).items()}\n"
        "ManagedServer(Path(sys.argv[1])).bulk_import(**files)"
    )
    importer = subprocess.Popen([sys.executable, "-c", program, str(home), json.dumps(files)])
    while not import_runs(importer.pid):
        assert importer.poll() is None
        time.sleep(0.01)
    assert other.import_unfinished()
    importer.kill()
    importer.wait()
    # Waits for what the killed process left running, and only then finds the graph half imported.
    with pytest.raises(GraphError, match="half imported"):
        other.start()
    other.bulk_import(**csv)
    assert not other.import_unfinished()
    assert other.status().store_bytes > 10_000_000


def test_the_command_line_tells_where_the_server_answers(server: ManagedServer) -> None:
    address = server.start()
    result = CliRunner().invoke(main, ["graph", "status", "--json"])
    status = json.loads(result.stdout)
    assert (status["running"], status["pid"], status["bolt"]) == (True, server.pid(), address.uri)
    assert status["password_file"] == str(server.password_file)
    assert address.password not in result.output
    started = CliRunner().invoke(main, ["graph", "start"])
    assert started.stdout.splitlines() == [address.uri, address.browser_page()]


def test_the_transaction_log_does_not_grow_with_what_is_written(server: ManagedServer, graph: Graph) -> None:
    text = "x" * 10_000  # long texts, because the log grows by bytes, and time by nodes
    for _ in range(30):
        graph.write("UNWIND range(1, 500) AS i CREATE (:Text {number: i, text: $text})", {"text": text})
    # On a busy machine the server removes what it no longer needs a moment later.
    wait_until(lambda: bytes_in(server.folder / "data" / "transactions" / "neo4j") < 130_000_000)


def bytes_in(folder: Path) -> int:
    """Of the files of a folder, of which some may go meanwhile."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def watcher_runs(server: ManagedServer) -> bool:
    return find_process(server.folder / "idle-stop.pid", WATCHER) is not None


def test_a_server_that_nobody_uses_stops_by_itself_and_its_watcher_with_it(
    server: ManagedServer, graph_home: Path
) -> None:
    server.start()
    pid = server.pid()
    assert CliRunner().invoke(main, ["graph", "start", "--idle-stop", "2s"]).exit_code == 0
    assert server.pid() == pid
    assert watcher_runs(server)
    with Graph.open(graph_home) as idle:
        idle.rows("RETURN 1 AS one")
        time.sleep(4)  # connected, though it asks nothing
        assert server.running()
    for _ in range(8):
        assert answers(server.address())  # connections that come and go between two looks
        time.sleep(0.5)
    wait_until(lambda: not server.running() and not watcher_runs(server))
    assert "Stopped after 2 s without a client." in (server.folder / "logs" / "idle-stop.log").read_text("utf-8")


def test_the_watcher_ends_when_it_is_told_or_the_server_is_gone(
    server: ManagedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.stop()
    monkeypatch.setenv("KGEDIT_GRAPH_IDLE_STOP", "1h")
    server.start()
    assert watcher_runs(server)
    server.start(idle_stop=0)
    assert not watcher_runs(server)
    server.start(idle_stop=3600)
    assert watcher_runs(server)
    pid = server.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not watcher_runs(server))


READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" "$1" || exit 77
shift
exec "$@"
"""


def in_read_only_home(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run kgedit where a home is mounted read-only, if this system lets us mount."""
    program = [sys.executable, "-c", "import sys; from kgedit.cli import main; main(sys.argv[1:])", *command]
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", str(home), *program], capture_output=True, text=True, check=False
    )
    if ran.returncode == 77 or "unshare failed" in ran.stderr:
        pytest.skip("no mounts here")
    return ran


def test_a_read_only_home_answers_while_its_server_runs_and_says_why_not_when_it_does_not(
    server: ManagedServer, graph_home: Path
) -> None:
    server.start()
    query = ["query", "--cypher", "RETURN 1 AS one", "--format", "csv"]
    ran = in_read_only_home(graph_home, *query)
    assert (ran.returncode, ran.stdout) == (0, "one\n1\n"), ran.stderr
    refused = in_read_only_home(graph_home, "graph", "stop")
    assert (refused.returncode, server.running()) == (1, True)
    server.stop()
    refused = in_read_only_home(graph_home, *query)
    assert refused.returncode == 1
    assert "is read-only" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_browser_answers_at_its_page(server: ManagedServer) -> None:
    page = server.start().browser_page()
    assert page is not None
    with urlopen(page, timeout=30) as answer:
        assert b"<title>Neo4j Browser</title>" in answer.read()
