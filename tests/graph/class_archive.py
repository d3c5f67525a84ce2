"""Neo4j's classes, read and checked by Java once for all servers of all test runs: each then starts in half the time.

Java's own way of doing so (application class data sharing) needs an archive that one server writes as it ends. That
takes as long as five starts, so the archive is kept beside the jars in the user's cache, for all checkouts, for as long
as Java and the jars are the same.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

from kgedit.graph.managed.class_path import class_path
from kgedit.graph.managed.install import jar_folder
from kgedit.graph.managed.java import Java, find_java
from kgedit.graph.managed.server import ManagedServer

# The second compiler and the parallel collector take half of the time of a server that lives a minute.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quick_java() -> str:
    """Java's options for servers of tests; the first caller has the archive written, others wait for it."""
    jars = class_path()
    found = find_java()
    folder = jar_folder().parent / "test-classes"
    folder.mkdir(exist_ok=True)
    own = folder / _key(found, jars)
    java, neo4j, done = own / "java.jsa", own / "neo4j.jsa", own / "done"
    with FileLock(folder / "lock"):
        if not done.exists():
            for old in folder.glob("*/"):
                shutil.rmtree(old)
            own.mkdir()
            _write_archives(found, java, neo4j, own / "home")
            shutil.rmtree(own / "home", ignore_errors=True)
            done.touch()
    written = ":".join(str(archive) for archive in (java, neo4j) if archive.is_file())
    # A Java that cannot write them only starts more slowly.
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={written}" if written else QUICK_JAVA


def _key(java: Java, jars: Sequence[Path]) -> str:
    """Names what Java compares before it uses an archive: itself, and the jars in order, by size and time."""
    files = [Path(java.path).resolve(), *jars]
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((QUICK_JAVA, java.version, stats)).encode()).hexdigest()[:16]


def _write_archives(found: Java, java: Path, neo4j: Path, home: Path) -> None:
    """One of Java's own classes, which not every Java brings, and one of Neo4j's on top of it."""
    dump = [found.path, *QUICK_JAVA.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={java}"]
    # Java 21 refuses an archive over jars that name others in their manifests, as Neo4j's do.
    if subprocess.run(dump, stdout=subprocess.DEVNULL, check=False).returncode != 0 or found.version != 17:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"{QUICK_JAVA} -XX:SharedArchiveFile={java} -XX:ArchiveClassesAtExit={neo4j}")
        server = ManagedServer(home)
        server.start()
        server.stop()
