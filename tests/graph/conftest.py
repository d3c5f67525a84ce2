"""Real Neo4j servers, each in a separate home.

A missing server is a failure, not a skip; plain ``pytest`` deselects these tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from graph.class_archive import quick_java
from graph.worlds import dumps, kgedit, load_command
from kgedit.graph.connection import Graph
from kgedit.graph.managed.server import ManagedServer


@pytest.fixture(scope="session", autouse=True)
def small_servers() -> Iterator[None]:
    """Servers for tests are small, and belong to the test's home regardless of the developer's environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGEDIT_GRAPH_HEAP", "1g")
        patch.setenv("KGEDIT_GRAPH_PAGECACHE", "256m")
        patch.delenv("KGEDIT_GRAPH_URI", raising=False)
        patch.setenv("JDK_JAVA_OPTIONS", quick_java())
        yield


@pytest.fixture(scope="session")
def graph_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A $KGEDIT_HOME whose server is stopped when the session ends; the jars come from the user's cache."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGEDIT_HOME", str(home))
        yield home
        ManagedServer(home).stop()


@pytest.fixture(scope="session")
def server(graph_home: Path) -> ManagedServer:
    """The session's server. Tests that need it running call its start, which does nothing if it runs."""
    return ManagedServer(graph_home)


@pytest.fixture
def graph(graph_home: Path) -> Iterator[Graph]:
    """A connection to an empty graph: no nodes, indexes and constraints as earlier tests left them."""
    with Graph.open(graph_home) as opened:
        opened.write("MATCH (node) DETACH DELETE node")
        yield opened


@pytest.fixture(scope="session")
def home_of(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Callable[[str], Path]]:
    """Homes with a world loaded (sample, pat, w12k), made on first use, for tests that only read them.

    All workers share them, because loading one and starting its server takes ten seconds. The last worker that uses a
    home stops its server.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    homes: dict[str, Path] = {}

    @contextmanager
    def users_of(world: str) -> Iterator[Path]:
        with FileLock(shared / f"{world}.lock"):
            users = shared / f"{world}.users"
            users.mkdir(exist_ok=True)
            yield users

    def load(world: str) -> Path:
        if world not in homes:
            # An apostrophe in the path of a home once ended every command.
            homes[world] = shared / f"{world}'s home"
            with users_of(world) as users:
                (users / worker_id).touch()
                if not (loaded := shared / f"{world}.loaded").exists():
                    for path, date in dumps(world, tmp_path_factory.mktemp("dumps")):
                        kgedit(homes[world], *load_command(path, date), "--no-graph")
                    # One import of all snapshots; that deltas end in the same graph is tested in test_projection.py.
                    kgedit(homes[world], "graph", "rebuild")
                    loaded.touch()
        return homes[world]

    yield load
    for world, home in homes.items():
        with users_of(world) as users:
            (users / worker_id).unlink()
            if not any(users.iterdir()):
                ManagedServer(home).stop()


@pytest.fixture(scope="session")
def sample_home(home_of: Callable[[str], Path]) -> Path:
    """A home with the sample world loaded."""
    return home_of("sample")
