"""The jars that Java gets."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kgedit.graph.managed import class_path as module
from kgedit.graph.managed import install
from kgedit.graph.managed.class_path import class_path, remove_damaged_copies
from kgedit.graph.managed.java import environment_of

MANIFEST = b"Manifest-Version: 1.0\r\nBundle-Name: Lists\r\n\r\nName: a.class\r\nSHA-256-Digest: 0\r\n\r\n"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the jars of the lock, each with a signature, in an empty cache."""
    monkeypatch.setenv("KGEDIT_CACHE", str(tmp_path / "cache"))
    folder = install.jar_folder()
    folder.mkdir(parents=True)
    for jar in install.read_lock():
        with zipfile.ZipFile(folder / jar.name, "w") as archive:
            for name, content in (
                ("META-INF/MANIFEST.MF", MANIFEST),
                ("META-INF/ECLIPSE_.SF", b"signed"),
                ("META-INF/ECLIPSE_.RSA", b"signed"),
                ("META-INF/services/Lists", b"a"),
                ("a.class", b"code"),
            ):
                archive.writestr(name, content)
    monkeypatch.setattr(module, "install", lambda: folder)
    return folder


def copies(jars: Path) -> list[Path]:
    return sorted(jars.parent.glob("*-unsigned.jar"))


def test_every_jar_is_there_once_browsers_with_our_page_first_and_two_without_signatures(jars: Path) -> None:
    given = class_path()
    assert given[0].name.startswith("neo4j-browser-")
    assert given[0].parent == jars.parent
    unsigned = [path for path in given if path.name.endswith("-unsigned.jar")]
    assert sorted(unsigned) == copies(jars)
    assert [path.name.rpartition("-")[0].rpartition("-")[0] for path in copies(jars)] == [
        "eclipse-collections",
        "eclipse-collections-api",
    ]
    originals = {path.name.replace("-unsigned", "") for path in unsigned}
    assert [path.name.replace("-unsigned", "") for path in given[1:]] == [jar.name for jar in install.read_lock()]
    assert {path.name for path in given if path.parent == jars}.isdisjoint(originals)
    for path in unsigned:
        with zipfile.ZipFile(path) as archive:
            assert archive.namelist() == ["META-INF/services/Lists", "a.class", "META-INF/MANIFEST.MF"]
            assert archive.read("META-INF/MANIFEST.MF") == MANIFEST.partition(b"Name: a")[0]
            assert archive.testzip() is None
    written = [path.read_bytes() for path in unsigned]
    for path in unsigned:
        path.unlink()
    assert class_path() == given
    assert [path.read_bytes() for path in unsigned] == written
    assert environment_of(jars)["CLASSPATH"].split(os.pathsep) == [str(path) for path in given]


def test_without_a_place_for_the_copies_java_gets_the_jars_themselves(
    jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "replace_file", full)
    assert class_path()[1:] == [jars / jar.name for jar in install.read_lock()]  # the first is Browser's page
    assert list(jars.parent.glob("*unsigned*")) == []


def test_a_damaged_jar_is_not_copied_and_a_damaged_copy_is_written_again(jars: Path) -> None:
    class_path()
    assert remove_damaged_copies() == []
    first, second = copies(jars)
    first.write_bytes(first.read_bytes().replace(b"code", b"edoc"))
    second.write_bytes(b"")
    assert remove_damaged_copies() == [first.name, second.name]
    original = jars / first.name.replace("-unsigned", "")
    whole = original.read_bytes()
    original.write_bytes(b"damaged")
    assert original in class_path()
    original.write_bytes(whole)
    assert first in class_path()
    assert copies(jars) == [first, second]
    assert not list(jars.parent.glob(".*"))
