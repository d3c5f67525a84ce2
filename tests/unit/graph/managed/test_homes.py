"""Homes whose folder cannot be used as it is: full, read-only, of another user. No Neo4j runs here."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from kgedit.errors import GraphError
from kgedit.graph.managed import server as server_module
from kgedit.graph.managed.processes import locked
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.managed.settings import choose_ports


def refusal(home: Path) -> str:
    with pytest.raises(GraphError) as refused:
        ManagedServer(home).start()
    return str(refused.value)


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("", encoding="utf-8")
    assert f"{tmp_path / 'home'} is a file where a folder is needed" in refusal(tmp_path / "home")


def test_a_home_has_one_server_by_whatever_link_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    assert ManagedServer(tmp_path / "link").folder == ManagedServer(tmp_path / "home").folder


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
import neo4j, kgedit.graph.connection, kgedit.graph.managed.processes
commands = [COMMANDS[name] for name in COMMANDS]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for command in (["query", "--cypher", "RETURN 1"], ["graph", "start"], ["graph", "status"], ["graph", "stop"]):
    ran = CliRunner().invoke(main, command)
    print(ran.exit_code, type(ran.exception).__name__, ran.stderr.replace("\\n", " "))
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.slow
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
