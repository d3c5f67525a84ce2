"""Command lines of Neo4j's two programs, server and admin tool, run directly from their jars."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kgedit.errors import GraphError
from kgedit.graph.managed.java import Java

# Neo4j accesses these Java packages for direct memory and selectors, and warns if they are closed.
_OPENED = ("java.nio", "sun.nio.ch", "java.util.concurrent")
_OPENED_FOR_SERVER = ("java.io",)

# A server usually works for minutes, not days. Inlining less code has no measurable effect on long queries, and saves
# a third of the time of a first query and a fifth of that of a delta (docs/performance.md).
_COMPILE_LESS = ("-XX:MaxInlineLevel=9", "-XX:FreqInlineSize=120", "-XX:InlineSmallCode=1200")

_NOISE = re.compile(r"\s+(at |\.\.\. \d+ more)|[ .]+\d+% |\[.*∆")


def server_program(folder: Path, java: Java, jars: Path, *, heap: int) -> list[str]:
    """Command of the server, with `folder` as its home and `heap` bytes of Java heap."""
    return [
        *_java(java, jars, heap, _OPENED + _OPENED_FOR_SERVER),
        # A server without memory answers some queries but not others; one that has ended is started again.
        "-XX:+ExitOnOutOfMemoryError",
        *_COMPILE_LESS,
        "org.neo4j.server.CommunityEntryPoint",
        f"--home-dir={folder}",
        f"--config-dir={folder / 'conf'}",
        "--console-mode",
    ]


def admin_tool(java: Java, jars: Path, *arguments: str, heap: int = 256 * 1024 * 1024) -> list[str]:
    """Command of the admin tool (neo4j-admin) with these arguments; its home is set by `environment_of`."""
    # With java.io opened, an import would allocate 256 MB for a transaction log, regardless of neo4j.conf.
    return [*_java(java, jars, heap, _OPENED), "org.neo4j.cli.AdminTool", *arguments]


def environment_of(folder: Path) -> dict[str, str]:
    """Our environment variables, with `folder` as Neo4j's home."""
    return os.environ | {"NEO4J_HOME": str(folder), "NEO4J_CONF": str(folder / "conf")}


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


def _java(java: Java, jars: Path, heap: int, opened: Sequence[str]) -> list[str]:
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened]
    return [str(java.path), f"-Xmx{heap}", *options, "-cp", f"{jars}/*"]
