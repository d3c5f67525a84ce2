"""The server's process is found again, and ended, only if it is ours."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from world.patience import wait_until

from kgedit.graph.managed.processes import end_process, find_process, start_detached


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


@pytest.mark.slow
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


def test_a_pid_file_that_cannot_be_written_leaves_no_process_running(tmp_path: Path) -> None:
    marked = f"--mark-of-{os.getpid()}-unwritten"
    command = [sys.executable, "-c", "import time; time.sleep(60)", marked]
    with pytest.raises(OSError, match="cannot be written"):
        start_detached(
            command, tmp_path / "absent" / "pid", log=tmp_path / "log", folder=tmp_path, environment=os.environ
        )
    listed = ["ps", "-ww", "-eo", "args="]
    wait_until(lambda: marked not in subprocess.run(listed, capture_output=True, text=True, check=True).stdout)


def test_a_process_that_ended_unnoticed_by_its_parent_counts_as_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)", "--mark-of-ours"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    pid_file = tmp_path / "pid"
    pid_file.write_text(str(process.pid), encoding="utf-8")
    began = time.monotonic()
    # Nobody waits for it, so that it stays a zombie until this test does.
    end_process(pid_file, "--mark-of-ours", patience=60)
    assert time.monotonic() - began < 50
    pid_file.write_text(str(process.pid), encoding="utf-8")
    assert find_process(pid_file, "--mark-of-ours") is None
    process.communicate()
