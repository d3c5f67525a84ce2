"""SIGKILL at random moments of the commands that write much, of kgedit's process and of the Neo4j server.

After each kill the same command is given again: it must end in the same files and, where it writes the graph, in the
graph that the store defines. Kills of deltas and exports are in tests/graph/test_kills.py (KGEDIT_KILLS=40).

    PYTHONPATH=tests:benchmarks python tests/campaigns/kills.py --command rebuild --kills 10
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graph.worlds import content, dumps, expected_content, kgedit, load_command
from unit.cli.test_verbalize import good, persona_aware
from world.fault_server import fault_server
from world.small_timestep import write_timestep

from kgedit.graph.connection import Graph
from kgedit.graph.managed.server import ManagedServer
from kgedit.graph.state import missing_indexes

MADE_ANEW = ("reports", "answers", "neo4j", "import", "delta")
"""Folders of a home that hold times, caches or the server's own files."""


@dataclass(frozen=True)
class Work:
    """A command to be killed, in a home that is prepared for it.

    Attributes:
        prepared: The home before the command, copied for each kill; the graph's server does not run.
        command: What is given.
        seconds: Kills fall between these moments.
        server: Whether every other kill hits the server instead of kgedit.
    """

    prepared: Path
    command: tuple[str | Path, ...]
    seconds: tuple[float, float]
    server: bool = False


@contextmanager
def works(folder: Path, name: str) -> Iterator[Work]:
    """The work of a name, prepared in a folder."""
    files, home = dumps("sample", folder / "dumps"), folder / "prepared"
    home.mkdir()
    first, second = (tuple(load_command(*file)) for file in files[:2])
    if name == "load":
        yield Work(home, first, (0.3, 30.0), server=True)
    elif name == "rebuild":
        for command in (first, second):
            kgedit(home, *command, "--no-graph")
        yield Work(home, ("graph", "rebuild"), (0.3, 30.0), server=True)
    elif name == "up":
        yield Work(home, ("up", "--no-graph", "--profile", "wikifactdiff", "--no-open", "--sample", "5"), (0.3, 25.0))
    else:
        step = write_timestep(folder / "prepared" / "step", towns=range(8)).folder
        with fault_server() as server:
            server.reply = persona_aware(good)(server)
            server.seconds = 0.05
            out = ("--out", "worded", "--model", "m", "--base-url", server.url, "--workers", "1")
            axes = ("--axis", "update", "--axis", "rephrase", "--axis", "mhop", "--axis", "locality")
            yield Work(home, ("verbalize", step.name, *out, *axes), (0.3, 6.0))


def files_of(home: Path) -> dict[str, str]:
    """Path -> hash of what a command must write the same, however often it was killed."""
    paths = (path for path in sorted(home.rglob("*")) if path.is_file())
    names = ((path.relative_to(home), path) for path in paths)
    return {
        str(name): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in names
        if not any(part.startswith(".") or part in MADE_ANEW for part in name.parts) and name.parts[0] != "runs"
    }


def strike(home: Path, work: Work, after: float, *, server: bool) -> bool:
    """Run the command in a separate process group and kill it after a time; whether anything was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kgedit", *map(str, work.command)],
        env=dict(os.environ, KGEDIT_HOME=str(home), KGEDIT_CACHE=str(home / ".cache")),
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    end, pid = time.monotonic() + after, None
    while time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    while server and pid is None and process.poll() is None:
        pid = ManagedServer(home).pid()
        time.sleep(0.05)
    target = pid if server else process.pid
    running = process.poll() is None and target is not None
    if running and target is not None:
        os.kill(target, signal.SIGKILL)
    _, printed = process.communicate(timeout=600)
    if "Traceback" in printed:
        raise AssertionError(printed)
    return running


def again(home: Path, work: Work) -> None:
    """Give the command again, which must succeed."""
    subprocess.run(
        [sys.executable, "-m", "kgedit", *map(str, work.command)],
        env=dict(os.environ, KGEDIT_HOME=str(home), KGEDIT_CACHE=str(home / ".cache")),
        cwd=home,
        check=True,
        capture_output=True,
    )


def check_graph(home: Path) -> None:
    """The graph holds what the store defines, with all its indexes."""
    with Graph.open(home) as graph:
        if content(graph) != expected_content(home) or missing_indexes(graph):
            raise AssertionError(f"the graph of {home} differs from its store")


def campaign(folder: Path, *, name: str, kills: int, seed: int) -> Counter[str]:
    """Kill a command, and give it again; how many kills ended how."""
    chance, found = random.Random(f"{name} {seed}"), Counter[str]()
    with works(folder, name) as work:
        untouched = Path(shutil.copytree(work.prepared, folder / "untouched"))
        again(untouched, work)
        expected = files_of(untouched)
        ManagedServer(untouched).stop()
        for number in range(kills):
            home = Path(shutil.copytree(work.prepared, folder / "home"))
            try:
                server = work.server and number % 2 == 1
                struck = strike(home, work, chance.uniform(*work.seconds), server=server)
                again(home, work)
                if files_of(home) != expected:
                    raise AssertionError(f"other files after kill {number} of {name}")
                if work.server:
                    check_graph(home)
                found["server killed" if struck and server else "kgedit killed" if struck else "ended before"] += 1
            finally:
                if (home / "neo4j").is_dir():
                    ManagedServer(home).stop()
                shutil.rmtree(home)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", choices=("load", "rebuild", "up", "verbalize"), required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=27)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        counted = campaign(Path(scratch), name=arguments.command, kills=arguments.kills, seed=arguments.seed)
    for ended, count in sorted(counted.items()):
        sys.stdout.write(f"{arguments.command:<10}{count:>4}  {ended}\n")
