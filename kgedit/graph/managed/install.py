"""Downloads Neo4j's jars once into the user's cache and checks them against the shipped lock.

``jars.lock.toml`` lists every jar of Neo4j Community and its Browser with its sha256, so no dependencies are resolved
and Maven is not needed. To update to another release, rewrite the lock with jgo (about a minute)::

    pip install 'jgo[cli]' && jgo --cache-dir jgo-cache --resolver python info classpath \\
        org.neo4j:neo4j:5.26.30+org.neo4j.client:neo4j-browser:5.24.0 \\
        && cp jgo-cache/envs/org/neo4j/neo4j/*/jgo.lock.toml kgedit/graph/managed/jars.lock.toml

A jar gets its final name only after its hash was checked, so the folder contains only complete jars, even after a
kill, and the next attempt downloads only what is missing.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kgedit import resources
from kgedit.checksums import sha256_of
from kgedit.errors import GraphError, MissingExtraError
from kgedit.files import replace_file
from kgedit.graph.managed.processes import locked, say

LOCK = Path(__file__).with_name("jars.lock.toml")

_THREADS = 8
_ATTEMPTS = 3
_SECONDS_WITHOUT_AN_ANSWER = 60


@dataclass(frozen=True, slots=True)
class Jar:
    """One row of the lock: a jar's Maven coordinates and the hash of its content."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def name(self) -> str:
        """File name given by Maven."""
        parts = [self.artifact, self.version, self.classifier]
        return "-".join(part for part in parts if part) + ".jar"


def read_lock(path: Path = LOCK) -> tuple[Jar, ...]:
    """Read the jars of a lock written by jgo, in its order."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["dependencies"]
    return tuple(
        Jar(row["groupId"], row["artifactId"], row["version"], row.get("classifier", ""), row["sha256"]) for row in rows
    )


def neo4j_version() -> str:
    """Version of the server in the lock."""
    return next(jar.version for jar in read_lock() if (jar.group, jar.artifact) == ("org.neo4j", "neo4j"))


def jar_folder() -> Path:
    """Folder of the jars, in the cache shared by all homes."""
    return resources.cache() / f"neo4j-{neo4j_version()}" / "jars"


def is_installed() -> bool:
    """Whether all jars of this lock were downloaded and checked, and still have their sizes."""
    folder = jar_folder()
    try:
        record = json.loads(_marker(folder).read_text(encoding="utf-8"))
        return bool(record == _record(folder))
    except (OSError, ValueError):
        return False


def check_can_install() -> None:
    """Check that the jars are installed, or that jgo, which downloads them, is; downloads nothing.

    Raises:
        MissingExtraError: if jgo is needed and not installed.
    """
    if not is_installed() and find_spec("jgo") is None:
        raise MissingExtraError("jgo", "neo4j")


def wrong_jars() -> list[str]:
    """File names of jars that are missing or differ from the lock; reads all 150 MB."""
    folder = jar_folder()
    jars = read_lock()
    with ThreadPoolExecutor(_THREADS) as pool:
        whole = pool.map(lambda jar: _is_whole(folder / jar.name, jar), jars)
        return [jar.name for jar, is_whole in zip(jars, whole, strict=True) if not is_whole]


def install(*, verify: bool = False) -> Path:
    """Download the missing jars of Neo4j, 150 MB in all; does and prints nothing if none is missing.

    Args:
        verify: Whether to check the hashes of all jars (a fraction of a second), instead of names and sizes only.

    Returns:
        Folder of the jars, all of which belong on the class path.

    Raises:
        MissingExtraError: if jgo, which downloads them, is not installed.
        GraphError: if Maven Central cannot be reached, serves other content than the lock lists, or the disk is full.
    """
    folder = jar_folder()
    if is_installed() and not (verify and wrong_jars()):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / "install.lock"):
            if verify or not is_installed():
                _fill(folder, read_lock())
    except OSError as error:
        raise GraphError(_about_disk(error, folder)) from error
    return folder


def _fill(folder: Path, jars: Iterable[Jar]) -> None:
    """Make a folder contain exactly these jars, and mark it complete. The caller holds the lock."""
    jars = tuple(jars)
    missing = [jar for jar in jars if not _is_whole(folder / jar.name, jar)]
    fetched_into = folder.parent / "fetching"
    shutil.rmtree(fetched_into, ignore_errors=True)
    if missing:
        fetch_all(missing, folder, fetched_into)
        shutil.rmtree(fetched_into, ignore_errors=True)
    for unknown in {path.name for path in folder.iterdir()} - {jar.name for jar in jars}:
        # Everything in the folder is on the class path; a jar of another lock would shadow ours.
        (folder / unknown).unlink()
    replace_file(_marker(folder), json.dumps(_record(folder)))


def _record(folder: Path) -> dict[str, Any]:
    """Content of a complete folder's marker: the lock's hash, and the size of every file."""
    with os.scandir(folder) as files:
        return {"lock": sha256_of(LOCK), "sizes": {file.name: file.stat().st_size for file in files}}


def fetch_all(jars: Sequence[Jar], folder: Path, fetched_into: Path) -> None:
    """Download jars in parallel, with a progress bar on stderr; the first failure stops the others.

    Args:
        jars: Jars to download.
        folder: Target folder for checked jars.
        fetched_into: Scratch folder on the same disk.

    Raises:
        MissingExtraError: if jgo is not installed.
        GraphError: if a jar cannot be downloaded, or differs from the lock.
    """
    from rich.console import Console
    from rich.progress import track

    maven = _maven(fetched_into)
    say(f"Fetching {len(jars)} jars of Neo4j {neo4j_version()} into {folder}")
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting = [pool.submit(fetch, jar, folder / jar.name, maven) for jar in jars]
        try:
            for done in track(
                as_completed(waiting), "Neo4j's jars", total=len(waiting), console=Console(stderr=True), transient=True
            ):
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def fetch(jar: Jar, destination: Path, maven: Any) -> None:
    """Download one jar, and give it its name only after checking it.

    Args:
        jar: Jar to download.
        destination: Final path, on the same disk as the cache of `maven`.
        maven: A ``jgo.maven.MavenContext``.

    Raises:
        GraphError: if it cannot be downloaded, or still differs from the lock after three attempts.
    """
    from requests import RequestException

    artifact = maven.project(jar.group, jar.artifact).at_version(jar.version)
    artifact = artifact.artifact(classifier=jar.classifier, packaging="jar")
    found = "nothing"
    for _ in range(_ATTEMPTS):
        try:
            fetched: Path = artifact.resolve()
        except RequestException as error:
            found = str(error)
            # jgo would accept a truncated file.
            if artifact.cached_path.exists():
                artifact.cached_path.unlink()
            continue
        except RuntimeError as error:  # raised by jgo for any status but 200
            found = str(error)
            continue
        found = sha256_of(fetched)
        if found == jar.sha256:
            fetched.replace(destination)
            return
        fetched.unlink()
        found = f"a file with sha256 {found}, and not {jar.sha256}"
    raise GraphError(
        f"Maven Central is out of reach or does not serve {jar.group}:{jar.name} as expected: {found}. What was "
        f"fetched is kept; to resume: kgedit graph install. On a machine without network, run that on another "
        f"one and copy {destination.parent.parent}, or set KGEDIT_GRAPH_URI to a server that runs elsewhere."
    )


def _maven(repository: Path) -> Any:
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise MissingExtraError("jgo", "neo4j") from error
    return MavenContext(repo_cache=repository, timeout=_SECONDS_WITHOUT_AN_ANSWER)


def _marker(folder: Path) -> Path:
    return folder.parent / "complete"


def _is_whole(path: Path, jar: Jar) -> bool:
    return path.is_file() and sha256_of(path) == jar.sha256


def _about_disk(error: OSError, folder: Path) -> str:
    if error.errno == errno.ENOSPC:
        return (
            f"The disk of {folder} is full; Neo4j's jars need 150 MB. Make room, or set KGEDIT_CACHE to a folder "
            f"on another disk, and repeat: kgedit graph install"
        )
    return (
        f"Neo4j's jars cannot be stored in {folder}: {os.strerror(error.errno or 0)}. "
        f"Set KGEDIT_CACHE to a folder that you can write to."
    )
