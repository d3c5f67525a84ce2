"""The parts of the managed server that need no Neo4j: its process, ports, memory, address, locks."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kgedit.errors import GraphError
from kgedit.graph import server as server_module
from kgedit.graph.address import Address
from kgedit.graph.connection import Graph, find_address
from kgedit.graph.locks import locked
from kgedit.graph.memory import _control_group_limits, parse_size, plan_memory
from kgedit.graph.ports import Ports, choose_ports, is_free
from kgedit.graph.processes import end_process, find_process, start_detached
from kgedit.graph.programs import last_words
from kgedit.graph.server import ManagedServer

GIGABYTE = 1024**3


def wait_until(condition) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def start_sleeper(folder: Path, program: str) -> Path:
    """A detached Python process whose command line holds the mark `--mark-of-ours`."""
    pid_file = folder / "pid"
    command = [sys.executable, "-c", program, "--mark-of-ours"]
    start_detached(command, pid_file, log=folder / "log", folder=folder, environment=os.environ)
    return pid_file


def test_a_detached_process_is_found_by_its_pid_file_and_ended(tmp_path: Path) -> None:
    pid_file = start_sleeper(tmp_path, "print('started', flush=True); import time; time.sleep(60)")
    pid = find_process(pid_file, "--mark-of-ours")
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    wait_until(lambda: (tmp_path / "log").read_text(encoding="utf-8") == "started\n")
    end_process(pid_file, "--mark-of-ours", patience=10)
    assert find_process(pid_file, "--mark-of-ours") is None
    assert not pid_file.exists()


def test_a_process_is_found_from_its_first_moment_though_it_is_still_replacing_the_shell(tmp_path: Path) -> None:
    for _ in range(30):
        pid_file = start_sleeper(tmp_path, "import time; time.sleep(60)")
        assert find_process(pid_file, "--mark-of-ours") is not None
        end_process(pid_file, "--mark-of-ours", patience=10)


def test_a_process_that_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    pid_file = start_sleeper(tmp_path, program)
    wait_until(lambda: (tmp_path / "log").read_text(encoding="utf-8"))
    pid = int(pid_file.read_text(encoding="utf-8"))
    end_process(pid_file, "--mark-of-ours", patience=0.3)
    pid_file.write_text(str(pid), encoding="utf-8")
    assert find_process(pid_file, "--mark-of-ours") is None


def test_the_pid_of_a_dead_or_foreign_process_is_not_believed_and_never_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    foreign = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    dead = subprocess.Popen([sys.executable, "-c", "pass", "--mark-of-ours"])
    dead.wait()
    try:
        for text in (str(foreign.pid), str(dead.pid), "", "no number"):
            pid_file.write_text(text, encoding="utf-8")
            assert find_process(pid_file, "--mark-of-ours") is None
            end_process(pid_file, "--mark-of-ours", patience=0.1)
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_ports_are_kept_while_they_are_free_and_chosen_again_when_taken(tmp_path: Path) -> None:
    kept = choose_ports(tmp_path / "ports.json")
    assert kept.bolt != kept.http
    assert choose_ports(tmp_path / "ports.json") == kept
    with socket.create_server(("127.0.0.1", kept.http)):
        assert not is_free(kept.http)
        other = choose_ports(tmp_path / "ports.json")
    assert other.http != kept.http
    assert Ports.read(tmp_path / "ports.json") == other


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bolt": 1}'])
def test_a_ports_file_that_is_broken_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text, encoding="utf-8")
    assert Ports.read(tmp_path / "ports.json") is None


def test_memory_is_what_the_graph_needs_within_bounds_and_is_overridden_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_HEAP", raising=False)
    monkeypatch.delenv("KGEDIT_GRAPH_PAGECACHE", raising=False)
    # A small store on a large machine takes little of it; a large one gets a page cache in which it fits.
    small, large = plan_memory(64 * GIGABYTE), plan_memory(64 * GIGABYTE, store_bytes=3 * GIGABYTE)
    assert (small.heap, small.page_cache) == (4 * GIGABYTE, GIGABYTE // 4)
    assert (large.heap, large.page_cache) == (4 * GIGABYTE, 6 * GIGABYTE)
    assert plan_memory(16 * GIGABYTE).heap == 2 * GIGABYTE
    assert plan_memory(4 * GIGABYTE).heap == GIGABYTE
    assert plan_memory(4 * GIGABYTE, store_bytes=3 * GIGABYTE).page_cache == GIGABYTE
    assert plan_memory(GIGABYTE).heap == GIGABYTE // 2
    monkeypatch.setenv("KGEDIT_GRAPH_HEAP", "3g")
    assert plan_memory(16 * GIGABYTE).heap == 3 * GIGABYTE
    monkeypatch.setenv("KGEDIT_GRAPH_HEAP", "much")
    with pytest.raises(GraphError, match="KGEDIT_GRAPH_HEAP is 'much'"):
        plan_memory()


@pytest.mark.parametrize(("text", "size"), [("512m", 512 * 1024**2), ("2G", 2 * GIGABYTE), ("1gb", GIGABYTE), ("7", 7)])
def test_sizes_are_read_as_java_writes_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("line", "file", "limit"),
    [
        ("0::/job/step\n", "job/memory.max", "2147483648\n"),
        ("5:cpu:/x\n4:memory:/job\n", "memory/job/memory.limit_in_bytes", "2147483648\n"),
    ],
    ids=["version 2, limit on the group around", "version 1"],
)
def test_the_limit_of_a_container_is_found(tmp_path: Path, line: str, file: str, limit: str) -> None:
    groups, root = tmp_path / "groups", tmp_path / "root"
    groups.write_text(line, encoding="utf-8")
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text(limit, encoding="utf-8")
    (root / "memory.max").write_text("max\n", encoding="utf-8")
    assert _control_group_limits(root, groups) == [2 * GIGABYTE]


def test_an_address_hides_its_password_and_names_browsers_page() -> None:
    address = Address("bolt://127.0.0.1:7", "neo4j", "secret", browser_url="http://127.0.0.1:8/browser/")
    assert "secret" not in repr(address)
    assert address.browser_page() == "http://127.0.0.1:8/browser/?dbms=bolt://neo4j@127.0.0.1:7"
    assert (address.browser_page("MATCH (n)") or "").endswith("&cmd=edit&arg=MATCH%20%28n%29")
    assert Address("bolt://x", "neo4j", "").browser_page() is None


def test_a_lock_keeps_others_out_until_its_holder_dies(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from kgedit.graph.locks import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    taken = subprocess.Popen(
        [sys.executable, "-c", program.replace("time.sleep(60)", ""), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert taken.stderr is not None
    assert b"Waiting" in taken.stderr.readline()
    assert taken.poll() is None
    holder.kill()
    holder.communicate()
    assert taken.communicate(timeout=10)[0] == b"held\n"
    with locked(path):
        pass


def test_a_java_programs_last_words_are_without_progress_and_stack_frames() -> None:
    printed = "\n".join(
        [
            ".......... ..........  90% ∆0ms [26ms]",
            "Import failed",
            "Caused by: a bad row",
            "\tat org.neo4j.Tool.main(Tool.java:1)",
            "\t... 13 more",
            "Caused by: a bad row",
        ]
    )
    assert last_words(printed) == "Import failed\nCaused by: a bad row"


def test_without_a_server_nothing_is_started_unless_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGEDIT_GRAPH_URI", raising=False)
    with pytest.raises(GraphError, match="kgedit graph start"):
        find_address(tmp_path, start=False)
    status = ManagedServer(tmp_path).status()
    assert (status.running, status.pid, status.bolt, status.store_bytes) == (False, None, None, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "said"),
    [("bolt://127.0.0.1:1", "not answering at bolt://127.0.0.1:1"), ("http://127.0.0.1:1", "begins with bolt://")],
)
def test_an_address_where_nothing_answers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, said: str
) -> None:
    monkeypatch.setenv("KGEDIT_GRAPH_URI", uri)
    with pytest.raises(GraphError, match=said):
        Graph.open(tmp_path)


def test_a_pid_file_that_cannot_be_written_leaves_no_process_running(tmp_path: Path) -> None:
    marked = f"--mark-of-{os.getpid()}-unwritten"
    command = [sys.executable, "-c", "import time; time.sleep(60)", marked]
    with pytest.raises(OSError, match="cannot be written"):
        start_detached(
            command, tmp_path / "absent" / "pid", log=tmp_path / "log", folder=tmp_path, environment=os.environ
        )
    listed = ["ps", "-ww", "-eo", "args="]
    wait_until(lambda: marked not in subprocess.run(listed, capture_output=True, text=True, check=True).stdout)


def refusal(home: Path) -> str:
    with pytest.raises(GraphError) as refused:
        ManagedServer(home).start()
    return str(refused.value)


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("", encoding="utf-8")
    assert f"{tmp_path / 'home'} is a file where a folder is needed" in refusal(tmp_path / "home")


def test_a_disk_that_fills_up_while_starting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(server_module, "write_settings", full)
    assert "is full" in refusal(tmp_path)


def test_a_server_that_fails_on_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: ManagedServer) -> None:
        raise GraphError("Neo4j's first password cannot be set")

    monkeypatch.setattr(ManagedServer, "_launch_and_wait", fail)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=8192))
    assert "is full" in refusal(tmp_path)


def test_a_server_that_runs_on_a_full_disk_is_not_waited_for_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "neo4j"
    folder.mkdir()
    choose_ports(folder / "ports.json")
    (folder / "password").write_text("secret", encoding="utf-8")
    monkeypatch.setattr(ManagedServer, "running", lambda self: True)
    monkeypatch.setattr(server_module, "answers", lambda address: False)
    monkeypatch.setattr(server_module, "_SECONDS_TO_START", 2.0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=8192))
    assert "is full" in refusal(tmp_path)


def test_a_read_only_home_is_queried_while_its_server_answers_and_else_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(server_module, "locked", read_only)
    folder = tmp_path / "neo4j"
    folder.mkdir()
    assert "is read-only" in refusal(tmp_path)
    assert "KGEDIT_HOME" in refusal(tmp_path)
    choose_ports(folder / "ports.json")
    (folder / "password").write_text("secret", encoding="utf-8")
    assert "is read-only" in refusal(tmp_path)
    monkeypatch.setattr(server_module, "answers", lambda address: address.password == "secret")
    assert ManagedServer(tmp_path).start().password == "secret"


def test_a_server_that_answers_is_used_without_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "neo4j"
    folder.mkdir()
    choose_ports(folder / "ports.json")
    (folder / "password").write_text("secret", encoding="utf-8")
    monkeypatch.setattr(ManagedServer, "running", lambda self: True)
    monkeypatch.setattr(server_module, "answers", lambda address: True)
    before = sorted(path.name for path in folder.iterdir())
    with locked(folder / "other.lock"):
        assert ManagedServer(tmp_path).start().managed
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "other.lock"])


AS_ANOTHER_USER = """
import os, sys
from click.testing import CliRunner
from kgedit.cli import COMMANDS, main
import neo4j, kgedit.graph.connection, kgedit.graph.idle
commands = [COMMANDS[name] for name in COMMANDS]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for command in (["query", "--cypher", "RETURN 1"], ["graph", "start"], ["graph", "status"], ["graph", "stop"]):
    ran = CliRunner().invoke(main, command)
    print(ran.exit_code, type(ran.exception).__name__, ran.stderr.replace("\\n", " "))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
def test_another_users_home_is_refused_in_a_sentence() -> None:
    # Not under tmp_path, whose parents pytest closes to others.
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        folder = Path(home) / "neo4j"
        folder.mkdir(mode=0o700)
        choose_ports(folder / "ports.json")
        (folder / "password").write_text("secret", encoding="utf-8")
        environment = {**os.environ, "KGEDIT_HOME": home}
        environment.pop("KGEDIT_GRAPH_URI", None)
        said = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER_USER], env=environment, capture_output=True, text=True, check=True
        ).stdout
    assert len(said.splitlines()) == 4, said
    for line in said.splitlines():
        assert line.startswith("1 SystemExit Error: You may not use the Neo4j in "), said
        assert "belongs to user root" in line
        assert "KGEDIT_GRAPH_URI" in line
