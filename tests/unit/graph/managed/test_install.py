"""The lock of Neo4j's jars, and what an interrupted or wrong download leaves behind. No network."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from world.endpoints import Answer, Recorded, serving

from kgedit.cli import main
from kgedit.errors import GraphError, MissingExtraError
from kgedit.graph.managed import install
from kgedit.graph.managed.install import Jar
from kgedit.graph.managed.server import ManagedServer


def jar_of(content: bytes, *, artifact: str = "server") -> Jar:
    return Jar("org.example", artifact, "1.0", "", hashlib.sha256(content).hexdigest())


@contextmanager
def maven(contents: Mapping[Jar, bytes]) -> Iterator[Recorded]:
    """A Maven repository of these jars."""
    by_path = {f"/{jar.path}": content for jar, content in contents.items()}

    def answer(path: str, *_: object) -> Answer:
        return (200, {}, by_path[path]) if path in by_path else (404, {}, b"")

    with serving(answer) as repository:
        yield repository


def fetch(jar: Jar, folder: Path, contents: Mapping[Jar, bytes]) -> list[str]:
    """Fetch a jar from a repository; returns the requested paths."""
    with maven(contents) as repository, install._session() as session:
        try:
            install.fetch(jar, folder, repository.address, session)
        finally:
            paths = list(repository.paths)
    return paths


def test_the_shipped_lock_names_the_server_and_its_browser_with_their_hashes() -> None:
    jars = install.read_lock()
    assert len(jars) == len({jar.name for jar in jars}) == 217
    assert {jar.artifact for jar in jars} >= {"neo4j", "neo4j-browser", "neo4j-cypher", "neo4j-import-tool"}
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert re.fullmatch(r"5\.26\.\d+", install.neo4j_version())


def test_a_classifier_is_part_of_the_file_name() -> None:
    assert Jar("io.netty", "epoll", "4.1", "linux-x86_64", "").name == "epoll-4.1-linux-x86_64.jar"
    assert Jar("io.netty", "epoll", "4.1", "", "").name == "epoll-4.1.jar"


def test_a_jar_with_the_right_hash_gets_its_name(tmp_path: Path) -> None:
    jar = jar_of(b"whole")
    assert fetch(jar, tmp_path, {jar: b"whole"}) == ["/org/example/server/1.0/server-1.0.jar"]
    assert (tmp_path / jar.name).read_bytes() == b"whole"


def test_a_jar_with_another_hash_is_refused_and_leaves_nothing_on_the_class_path(tmp_path: Path) -> None:
    jar = jar_of(b"whole")
    with pytest.raises(GraphError, match=r"server-1\.0\.jar as expected: a file with sha256 [0-9a-f]{64}, and not"):
        fetch(jar, tmp_path, {jar: b"who"})
    assert not any(tmp_path.iterdir())


def test_a_jar_that_is_missing_is_named_with_the_status(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"org\.example:server-1\.0\.jar as expected: 404"):
        fetch(jar_of(b"whole"), tmp_path, {})


@pytest.mark.parametrize(
    "first",
    [(200, {"Content-Length": "5"}, b"who"), (503, {"Retry-After": "0"}, b"")],
    ids=["truncated", "server is busy"],
)
def test_a_download_that_failed_is_repeated(first: Answer, tmp_path: Path) -> None:
    jar = jar_of(b"whole")
    answers = iter([first, (200, {}, b"whole")])
    with serving(lambda *_: next(answers)) as repository, install._session() as session:
        install.fetch(jar, tmp_path, repository.address, session)
    assert (tmp_path / jar.name).read_bytes() == b"whole"


@pytest.fixture
def two_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Jar]]:
    """A lock of two jars, and an empty cache; nothing can be fetched."""
    jars = [jar_of(b"one", artifact="neo4j"), jar_of(b"two", artifact="other")]
    lock = tmp_path / "lock.toml"
    lock.write_text(
        "\n".join(
            f'[[dependencies]]\ngroupId = "org.neo4j"\nartifactId = "{jar.artifact}"\nversion = "1.0"\n'
            f'sha256 = "{jar.sha256}"'
            for jar in jars
        ),
        encoding="utf-8",
    )
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(install, "LOCK", lock)
    monkeypatch.setattr(install.read_lock, "__defaults__", (lock,))

    # Nobody listens at port 1 of this machine.
    monkeypatch.setattr(install, "_repository", lambda: "http://127.0.0.1:1")
    return install.jar_folder(), jars


def test_without_network_the_message_says_what_to_do(two_jars: tuple[Path, list[Jar]]) -> None:
    with pytest.raises(GraphError, match=r"Maven Central is out of reach.*kgedit graph install.*KGEDIT_GRAPH_URI"):
        install.install()
    assert not install.is_installed()


def test_what_is_whole_is_kept_what_is_broken_or_strange_is_not(two_jars: tuple[Path, list[Jar]]) -> None:
    folder, jars = two_jars
    folder.mkdir(parents=True)
    (folder / jars[0].name).write_bytes(b"one")
    (folder / jars[1].name).write_bytes(b"tw")
    with pytest.raises(GraphError, match=jars[1].name):
        install.install()
    (folder / jars[1].name).write_bytes(b"two")
    (folder / "neo4j-0.9.jar").write_bytes(b"of another lock")
    assert install.install() == folder
    assert install.is_installed()
    assert sorted(path.name for path in folder.iterdir()) == sorted(jar.name for jar in jars)


def test_a_new_lock_makes_an_old_installation_incomplete(two_jars: tuple[Path, list[Jar]]) -> None:
    folder, jars = two_jars
    folder.mkdir(parents=True)
    for jar, content in zip(jars, (b"one", b"two"), strict=True):
        (folder / jar.name).write_bytes(content)
    install.install()
    with install.LOCK.open("a", encoding="utf-8") as lock:
        lock.write("\n")
    assert not install.is_installed()


def test_a_full_disk_says_how_much_room_is_needed(
    two_jars: tuple[Path, list[Jar]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(install, "fetch", full)
    with pytest.raises(GraphError, match=r"is full.*150 MB.*KGEDIT_CACHE"):
        install.install()


def test_without_jgo_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jgo.maven", None)
    with pytest.raises(MissingExtraError, match=r"kgedit\[neo4j\]"):
        install.fetch_all([jar_of(b"")], tmp_path)


@pytest.fixture
def installed(two_jars: tuple[Path, list[Jar]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of two jars that were installed and can be fetched again."""
    folder = two_jars[0]
    with maven(dict(zip(install.read_lock(), (b"one", b"two"), strict=True))) as repository:
        monkeypatch.setattr(install, "_repository", lambda: repository.address)
        install.install()
        assert install.is_installed()
        yield folder


@pytest.mark.parametrize("damage", [Path.unlink, lambda jar: jar.write_bytes(b"o")], ids=["deleted", "truncated"])
def test_a_jar_that_is_gone_or_shorter_is_seen_at_once_and_fetched_again(installed: Path, damage) -> None:
    damage(installed / "neo4j-1.0.jar")
    assert not install.is_installed()
    install.install()
    assert (installed / "neo4j-1.0.jar").read_bytes() == b"one"
    assert install.is_installed()


def test_a_jar_of_the_right_size_and_other_bytes_is_found_by_its_hash(installed: Path) -> None:
    (installed / "neo4j-1.0.jar").write_bytes(b"eno")
    assert install.wrong_jars() == ["neo4j-1.0.jar"]
    install.install(verify=True)
    assert (installed / "neo4j-1.0.jar").read_bytes() == b"one"


def test_the_command_checks_every_hash(installed: Path) -> None:
    (installed / "neo4j-1.0.jar").write_bytes(b"eno")
    ran = CliRunner().invoke(main, ["graph", "install"])
    assert ran.exit_code == 0, ran.output
    assert install.wrong_jars() == []


def test_what_is_whole_is_checked_without_writing(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "locked", None)
    assert install.install(verify=True) == installed


def test_a_start_that_fails_because_of_a_damaged_jar_is_mended_and_tried_again(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "neo4j-1.0.jar").write_bytes(b"eno")
    launches = []

    def launch(self: ManagedServer) -> None:
        launches.append(install.wrong_jars())
        if launches[-1]:
            raise GraphError("Neo4j did not start: NoClassDefFoundError")

    monkeypatch.setattr(ManagedServer, "_launch_and_wait", launch)
    monkeypatch.setattr(ManagedServer, "address", lambda self: "started")
    assert ManagedServer(tmp_path / "home").start() == "started"
    assert launches == [["neo4j-1.0.jar"], []]
