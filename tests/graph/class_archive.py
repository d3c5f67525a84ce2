"""Neo4j's classes, read and checked by Java once for all servers of a test run: each then starts in half the time.

Java's own way of doing so (application class data sharing) needs an archive that one server writes as it ends.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from kgedit.graph.managed.java import find_java
from kgedit.graph.managed.server import ManagedServer

# The second compiler and the parallel collector take half of the time of a server that lives a minute.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def quick_java(factory: pytest.TempPathFactory) -> str:
    """Java's options for servers of tests; whoever asks first in a run has the archive written, the others wait."""
    own = factory.getbasetemp()
    # A worker's folder of temporary files lies in that of the run.
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "java"
    folder.mkdir(exist_ok=True)
    java, neo4j, done = folder / "java.jsa", folder / "neo4j.jsa", folder / "done"
    with FileLock(folder / "lock"):
        if not done.exists():
            _write_archives(java, neo4j, folder / "home")
            done.touch()
    written = ":".join(str(archive) for archive in (java, neo4j) if archive.is_file())
    # A Java that cannot write them only starts more slowly.
    return f"{QUICK_JAVA} -XX:SharedArchiveFile={written}" if written else QUICK_JAVA


def _write_archives(java: Path, neo4j: Path, home: Path) -> None:
    """One of Java's own classes, which not every Java brings, and one of Neo4j's on top of it."""
    found = find_java()
    dump = [found.path, *QUICK_JAVA.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={java}"]
    # Java 21 refuses an archive over jars that name others in their manifests, as Neo4j's do.
    if subprocess.run(dump, stdout=subprocess.DEVNULL, check=False).returncode != 0 or found.version != 17:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"{QUICK_JAVA} -XX:SharedArchiveFile={java} -XX:ArchiveClassesAtExit={neo4j}")
        server = ManagedServer(home)
        server.start()
        server.stop()
