"""Starts, finds and ends the processes of a server, by pid file and command line, and waits for other kgedit processes.

After a kill or a reboot another program may have the same pid, so the command line of the process must contain a mark
that only ours has. Besides the server there is the watcher of ``kgedit graph start --idle-stop``, which stops a server
without clients.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from kgedit.errors import GraphError
from kgedit.files import exclusive_lock

_SECONDS_TO_DIE = 10.0  # after a SIGKILL


def find_process(pid_file: Path, mark: str) -> int | None:
    """The pid in a pid file, if that process lives and its command line contains the mark; else None."""
    process = _process_of(pid_file, mark)
    return process.pid if process else None


def start_detached(
    command: Sequence[str], pid_file: Path, *, log: Path, folder: Path, environment: Mapping[str, str]
) -> None:
    """Start a process that outlives this one, in a new session, so that Ctrl-C does not reach it.

    An intermediate shell writes the pid file and ends. A kill at any moment therefore leaves no server without a pid
    file, and the server's parent is the init process, which reaps it.

    Raises:
        OSError: if the pid file cannot be written; then nothing is left running.
    """
    with log.open("wb") as output:
        ended = subprocess.run(
            ["/bin/sh", "-c", '"$@" & echo $! > "$0" || { kill $!; exit 1; }', str(pid_file), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
            check=False,
        )
    if ended.returncode != 0:
        raise OSError(_why_not_written(pid_file), f"{pid_file} cannot be written")


def _why_not_written(path: Path) -> int:
    try:
        return errno.ENOSPC if shutil.disk_usage(path.parent).free < 4096 else errno.EIO
    except OSError as error:
        return error.errno or errno.EIO


def end_process(pid_file: Path, mark: str, *, patience: float) -> None:
    """Terminate the process of a pid file, kill it after a timeout, and remove the pid file.

    Args:
        pid_file: File written by `start_detached`; a process that is not ours is not touched.
        mark: See `find_process`.
        patience: Seconds that a clean shutdown may take.

    Raises:
        PermissionError: if the process belongs to another user.
    """
    process = _process_of(pid_file, mark)
    if process is not None:
        try:
            process.terminate()
            if not _ends_within(patience, process):
                process.kill()
                _ends_within(_SECONDS_TO_DIE, process)
        except psutil.NoSuchProcess:
            pass  # it ended in the meantime
        except psutil.AccessDenied as error:
            raise PermissionError(errno.EPERM, "belongs to another user", str(pid_file)) from error
    pid_file.unlink(missing_ok=True)


def _process_of(pid_file: Path, mark: str) -> psutil.Process | None:
    try:
        process = psutil.Process(int(pid_file.read_text(encoding="utf-8")))
        return process if mark in _command_line(process) else None
    except (OSError, ValueError, psutil.Error):
        return None


def _command_line(process: psutil.Process) -> str:
    """Command line of a process; briefly empty while a process replaces its program."""
    for _ in range(50):
        words = process.cmdline()
        if words:
            return " ".join(words)
        time.sleep(0.01)
    return ""


def _ends_within(seconds: float, process: psutil.Process) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        # Not process.wait, which treats a zombie as alive: in a container no process may reap it.
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def locked(path: Path, *, waiting: str = "Waiting for another kgedit process ...") -> AbstractContextManager[int]:
    """Hold an exclusive lock on a file. While another process holds it, `waiting` is printed on stderr."""
    return exclusive_lock(path, when_taken=lambda: say(waiting))


def say(line: str) -> None:
    """Print one line of progress on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


_VARIABLE = "KGEDIT_GRAPH_IDLE_STOP"
_UNITS = {"s": 1, "m": 60, "h": 3600}
WATCHER = "kgedit.graph.managed.idle_watcher"
"""Module run by the watcher process."""


def parse_idle_stop(text: str, source: str) -> float:
    """Parse "30m", "90s" or "2h" to seconds; "off" is 0.

    Args:
        text: The text.
        source: Option or variable that it came from, for the message.

    Raises:
        GraphError: if it is not a time.
    """
    found = re.fullmatch(r"(\d{1,6})([smh])", text.strip().lower())
    if text.strip().lower() == "off":
        return 0.0
    if found is None or int(found.group(1)) == 0:
        raise GraphError(f"{source} is '{text}', which is not a time. Give a number with s, m or h (30m), or off.")
    return float(int(found.group(1)) * _UNITS[found.group(2)])


def idle_stop_from_environment() -> float:
    """KGEDIT_GRAPH_IDLE_STOP in seconds; 0 if it is not set.

    Raises:
        GraphError: if it is not a time.
    """
    return parse_idle_stop(os.environ.get(_VARIABLE) or "off", _VARIABLE)


def start_watcher(folder: Path, pid: int, seconds: float) -> None:
    """Start the watcher of a server; ends a running watcher first.

    Args:
        folder: The server's folder, ``neo4j`` in a home.
        pid: The server's process id.
        seconds: Time without a client after which the server is stopped; 0 means no watcher.
    """
    pid_file = folder / "idle-stop.pid"
    arguments = ["-m", WATCHER, str(folder.parent), str(pid), str(seconds)]
    end_process(pid_file, " ".join(arguments[:3]) + " ", patience=5.0)
    if seconds == 0:
        return
    package = str(Path(__file__).parents[3])
    found_by_python = os.pathsep.join(part for part in (package, os.environ.get("PYTHONPATH")) if part)
    start_detached(
        [sys.executable, *arguments],
        pid_file,
        log=folder / "logs" / "idle-stop.log",
        folder=folder,
        environment=os.environ | {"PYTHONPATH": found_by_python},
    )
