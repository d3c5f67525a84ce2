"""Files that are whole or absent, and locks that end with their holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kgedit.files import exclusive_lock, replace_file
from kgedit.graph.locks import locked


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
    assert taken.communicate(timeout=60)[0] == b"held\n"
    with locked(path):
        pass


def test_a_lock_that_is_taken_may_be_refused_instead_of_waited_for(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError("taken")

    with (
        exclusive_lock(tmp_path / "lock", when_taken=refuse),
        pytest.raises(RuntimeError, match="taken"),
        exclusive_lock(tmp_path / "lock", when_taken=refuse),
    ):
        pass
    with exclusive_lock(tmp_path / "lock", when_taken=refuse):
        pass


def test_a_child_that_inherits_the_descriptor_holds_the_lock_too(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; from pathlib import Path; from kgedit.graph.locks import locked\n"
        "with locked(Path(sys.argv[1])) as lock:\n"
        "    child = subprocess.Popen(['sleep', '60'], pass_fds=[lock])\n"
        "    print(child.pid, flush=True); child.wait()"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    holder.kill()
    holder.wait()
    taken = []
    with exclusive_lock(tmp_path / "lock", when_taken=lambda: (taken.append(True), os.kill(child, signal.SIGKILL))):
        assert taken == [True]


def test_a_file_is_replaced_at_once_with_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "password"
    assert replace_file(path, "first", mode=0o600) == path
    assert path.stat().st_mode & 0o777 == 0o600
    replace_file(path, b"second", mode=0o600)
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    replace_file(path, "old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "half of a pair: \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
