"""The server's process: found again by its pid file, and only if it is really ours.

A pid alone proves nothing after a kill or a reboot, when another program may bear it. So the command line is read
back from the system and must hold a mark that only our server has.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def command_line(pid: int) -> str:
    """The command that a process runs; empty if there is no such process, or only its corpse (a zombie)."""
    if Path("/proc/self/cmdline").is_file():
        return _command_line_in(Path("/proc") / str(pid))
    # macOS has no /proc.
    answer = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def _command_line_in(process: Path) -> str:
    """A process that is just replacing its program has an empty command line for a moment: it is read again."""
    for _ in range(50):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            return ""
        if line or state in "ZX":
            return line
        time.sleep(0.01)
    return ""


def find_process(pid_file: Path, mark: str) -> int | None:
    """The pid in a pid file, if that process lives and its command line holds the mark; else None."""
    try:
        pid = int(pid_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return pid if mark in command_line(pid) else None


def start_detached(
    command: Sequence[str], pid_file: Path, *, log: Path, folder: Path, environment: Mapping[str, str]
) -> None:
    """Start a process that outlives us, in a session of its own, so that no Ctrl-C of ours reaches it.

    A shell between us and it writes the pid file and ends: a kill of ours at any moment leaves no server without a
    pid file, and its parent is the system's first process, which clears it away when it ends.

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
    """Ask the process of a pid file to end, kill it when its time is up, and remove the pid file.

    Args:
        pid_file: As start_detached wrote it; a pid that is not ours is left alone.
        mark: As in find_process.
        patience: Seconds that a clean shutdown may take.
    """
    pid = find_process(pid_file, mark)
    if pid is not None:
        for sent, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
            try:
                os.kill(pid, sent)
            except ProcessLookupError:
                break
            if _ended(pid_file, mark, seconds):
                break
    pid_file.unlink(missing_ok=True)


def _ended(pid_file: Path, mark: str, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if find_process(pid_file, mark) is None:
            return True
        time.sleep(0.1)
    return False
