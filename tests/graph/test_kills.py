"""Kills of kgedit and of the server at random points of loads and exports end in the same bytes and the same graph.

A few of them in the suite; `KGEDIT_KILLS=40 pytest tests/graph/test_kills.py` for many.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pytest
from world.dumps import hashes

from graph.worlds import content, dumps, expected_content, kgedit, load_command
from kgedit.graph.connection import Graph
from kgedit.graph.managed.server import ManagedServer

pytestmark = pytest.mark.graph

KILLS = int(os.environ.get("KGEDIT_KILLS", "2"))
SEED = 2024
WINDOW = ("export-timestep", "--from", "2021-01-04", "--to", "2023-02-27")

IN_SMALL_BATCHES = (
    "import sys; from kgedit.graph import writing; writing.BATCH_ROWS = 20; "
    "from kgedit.cli import main; main(sys.argv[1:])"
)


@dataclass(frozen=True)
class Kill:
    """When and whom."""

    command: tuple[str | Path, ...]
    after: float
    server: bool


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, str]]:
    """The sample's three snapshots, and then its last two again and again, a day later each time."""
    first = dumps("sample", tmp_path_factory.mktemp("dumps"))
    begun = date(2024, 6, 4)
    later = [(first[1 + number % 2][0], str(begun + timedelta(days=number))) for number in range(KILLS)]
    return first + later


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, files: list[tuple[Path, str]]) -> Path:
    """A store into which the same was loaded without any kill."""
    home = tmp_path_factory.mktemp("untouched")
    for path, day in files:
        kgedit(home, *load_command(path, day), "--no-graph")
    return home


@pytest.fixture
def home(tmp_path: Path, files: list[tuple[Path, str]], untouched: Path) -> Iterator[Path]:
    """The first three snapshots, imported as a whole: what is killed are deltas."""
    for _, day in files[:3]:
        name = day.replace("-", "")
        shutil.copytree(untouched / "snapshots" / name, tmp_path / "snapshots" / name)
    kgedit(tmp_path, "graph", "rebuild")
    yield tmp_path
    ManagedServer(tmp_path).stop()


def kills(files: list[tuple[Path, str]]) -> Iterator[Kill]:
    """Of three commands two load the next snapshot, and one exports; every other kill of each hits the server."""
    chance = random.Random(SEED)
    for number, (path, day) in enumerate(files[3:]):
        yield Kill(tuple(load_command(path, day)), chance.uniform(0.2, 4.0), server=number % 2 == 1)
        if number % 2 == 1:
            export = (*WINDOW, "--overwrite")
            yield Kill(export, chance.uniform(0.2, 2.5), server=number % 4 == 3)


def strike(home: Path, kill: Kill) -> bool:
    """Run the command in a separate process and kill it after a time; whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_SMALL_BATCHES, *map(str, kill.command)],
        env=dict(os.environ, KGEDIT_HOME=str(home)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(kill.after)
    running = process.poll() is None
    pid = ManagedServer(home).pid() if kill.server else process.pid
    if running and pid is not None:
        os.kill(pid, signal.SIGKILL)
    _, printed = process.communicate(timeout=300)
    assert "Traceback" not in printed
    return running


def test_kills_end_in_the_same_bytes_and_the_same_graph(
    home: Path, files: list[tuple[Path, str]], untouched: Path
) -> None:
    kgedit(home, *WINDOW)
    exported = hashes(home / "timesteps")
    struck = 0
    for kill in kills(files):
        struck += strike(home, kill)
        kgedit(home, *kill.command)
    assert struck > 0
    assert hashes(home / "snapshots") == hashes(untouched / "snapshots")
    assert hashes(home / "timesteps") == exported
    with Graph.open(home) as graph:
        assert content(graph) == expected_content(home)
