"""Starts, finds and ends the server's process, by pid file and command line, and waits for other kgedit processes.

After a kill or a reboot another program may have the same pid, so the command line of the process must contain a mark
that only our server has.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

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
