"""Downloads Neo4j's jars once into the user's cache and checks them against the shipped lock.

``jars.lock.toml`` lists every jar of Neo4j Community and its Browser with its sha256, so no dependencies are resolved
and Maven is not needed. To update to another release, rewrite the lock with jgo (about a minute)::

    pip install 'jgo[cli]' && jgo --cache-dir jgo-cache --resolver python info classpath \\
        org.neo4j:neo4j:5.26.30+org.neo4j.client:neo4j-browser:5.24.0 \\
        && cp jgo-cache/envs/org/neo4j/neo4j/*/jgo.lock.toml kgedit/graph/managed/jars.lock.toml

A jar is written only after its hash was checked, so the folder contains only complete jars, even after a kill, and the
next attempt downloads only what is missing.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit import resources
from kgedit.checksums import sha256_of
from kgedit.errors import GraphError, MissingExtraError
from kgedit.files import replace_file
from kgedit.graph.managed.processes import locked, say

if TYPE_CHECKING:
    import requests

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

    @property
    def path(self) -> str:
        """Path in a Maven repository."""
        return "/".join([*self.group.split("."), self.artifact, self.version, self.name])


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
    """Check that the jars are installed, or that jgo, which knows where to download them, is; downloads nothing.

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
        MissingExtraError: if jgo, which knows their address, is not installed.
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


def _fill(folder: Path, jars: Sequence[Jar]) -> None:
    """Make a folder contain exactly these jars, and mark it complete. The caller holds the lock."""
    missing = [jar for jar in jars if not _is_whole(folder / jar.name, jar)]
    if missing:
        fetch_all(missing, folder)
    for unknown in {path.name for path in folder.iterdir()} - {jar.name for jar in jars}:
        # Everything in the folder is on the class path; a jar of another lock would shadow ours.
        (folder / unknown).unlink()
    replace_file(_marker(folder), json.dumps(_record(folder)))


def _record(folder: Path) -> dict[str, Any]:
    """Content of a complete folder's marker: the lock's hash, and the size of every file."""
    with os.scandir(folder) as files:
        return {"lock": sha256_of(LOCK), "sizes": {file.name: file.stat().st_size for file in files}}


def fetch_all(jars: Sequence[Jar], folder: Path) -> None:
    """Download jars in parallel, with a progress bar on stderr; the first failure stops the others.

    Args:
        jars: Jars to download.
        folder: Target folder.

    Raises:
        MissingExtraError: if jgo is not installed, which has the address of Maven Central.
        GraphError: if a jar cannot be downloaded, or differs from the lock.
    """
    from rich.console import Console
    from rich.progress import track

    repository = _repository()
    say(f"Fetching {len(jars)} jars of Neo4j {neo4j_version()} into {folder}")
    with _session() as session, ThreadPoolExecutor(_THREADS) as pool:
        waiting = [pool.submit(fetch, jar, folder, repository, session) for jar in jars]
        try:
            for done in track(
                as_completed(waiting), "Neo4j's jars", total=len(waiting), console=Console(stderr=True), transient=True
            ):
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def fetch(jar: Jar, folder: Path, repository: str, session: requests.Session) -> None:
    """Download one jar, and write it only after checking it.

    Args:
        jar: Jar to download.
        folder: Target folder.
        repository: Address of the Maven repository.
        session: Its connections are shared by all threads: one for each jar, with its own copy of the trusted
            certificates, would take ten processor seconds for all jars.

    Raises:
        GraphError: if it cannot be downloaded, or still differs from the lock after three attempts.
    """
    from requests import RequestException

    found = "nothing"
    for _ in range(_ATTEMPTS):
        try:
            answer = session.get(f"{repository}/{jar.path}", timeout=_SECONDS_WITHOUT_AN_ANSWER)
            answer.raise_for_status()
        except RequestException as error:  # a truncated answer as well
            found = str(error)
            continue
        sha256 = hashlib.sha256(answer.content).hexdigest()
        if sha256 == jar.sha256:
            replace_file(folder / jar.name, answer.content, durable=False)
            return
        found = f"a file with sha256 {sha256}, and not {jar.sha256}"
    raise GraphError(
        f"Maven Central is out of reach or does not serve {jar.group}:{jar.name} as expected: {found}. What was "
        f"fetched is kept; to resume: kgedit graph install. On a machine without network, run that on another "
        f"one and copy {folder.parent}, or set KGEDIT_GRAPH_URI to a server that runs elsewhere."
    )


def _repository() -> str:
    """Address of Maven Central."""
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise MissingExtraError("jgo", "neo4j") from error
    address: str = next(iter(MavenContext().remote_repos.values()))
    return address


def _session() -> requests.Session:
    """A connection for each thread, which waits if the server asks for it."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    waits = Retry(_ATTEMPTS, connect=0, read=0, status_forcelist=(429, 503), backoff_factor=1)
    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=_THREADS, max_retries=waits))
    return session


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
