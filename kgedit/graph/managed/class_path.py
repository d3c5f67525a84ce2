"""Jars as Java reads them: Browser's with the page that connects it, and Eclipse Collections' without signatures.

Neo4j looks up some sixty factories of Eclipse Collections by name, and for each of them Java opens both jars anew and
reads a signed list of eight thousand files: a second of a server's start, and a fifth of a small import. The hashes of
the lock have already vouched for the jars, so copies without signatures take their place.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from pathlib import Path

from kgedit.graph.browser import entry_jar
from kgedit.graph.managed.install import install, jar_folder, read_lock

_SIGNED = ("eclipse-collections", "eclipse-collections-api")
_COPY = "-unsigned.jar"
_SIGNATURE = re.compile(r"META-INF/([^/]+\.(SF|RSA|DSA|EC)|MANIFEST\.MF)")
_MANIFEST = "META-INF/MANIFEST.MF"
_MEMBER_DATE = (1980, 1, 1, 0, 0, 0)  # the same jar gives the same copy


def class_path() -> list[Path]:
    """All jars of Neo4j, downloaded if they are missing, in the order of the lock.

    Raises:
        MissingExtraError: see `install`.
        GraphError: see `install`.
    """
    folder = install()
    # First, because Neo4j serves the first folder `browser` that it finds.
    entry = [jar for jar in (entry_jar(),) if jar is not None]
    rest = [
        _without_signatures(folder / jar.name) if jar.artifact in _SIGNED else folder / jar.name for jar in read_lock()
    ]
    return entry + rest


def remove_damaged_copies() -> list[str]:
    """Remove copies whose content is damaged, which are then written again, and return their names."""
    damaged = [copy for copy in jar_folder().parent.glob(f"*{_COPY}") if not _is_whole(copy)]
    for copy in damaged:
        copy.unlink()
    return [copy.name for copy in damaged]


def _without_signatures(original: Path) -> Path:
    """The copy, in the user's cache; the original if it is missing and cannot be written there."""
    # Beside the folder of the jars, which holds what the lock lists and nothing else.
    copy = original.parent.with_name(original.stem + _COPY)
    if not copy.is_file():
        aside = copy.with_name(f".{copy.name}.{os.getpid()}.aside")
        try:
            shutil.copyfile(original, aside)
            _drop_signatures(aside)
            aside.replace(copy)
        except (OSError, zipfile.BadZipFile, KeyError):  # a damaged original is found when Java cannot run it
            aside.unlink(missing_ok=True)
            return original
    return copy


def _drop_signatures(jar: Path) -> None:
    """Rewrite a jar's directory without its signatures, and with the part of its manifest that lists no files."""
    with zipfile.ZipFile(jar, "a") as archive:
        about, end, _ = archive.read(_MANIFEST).partition(b"\r\n\r\n")
        for name in filter(_SIGNATURE.fullmatch, archive.namelist()):
            archive.filelist.remove(archive.NameToInfo.pop(name))
        # Writing a member is what makes zipfile write the directory again.
        archive.writestr(zipfile.ZipInfo(_MANIFEST, _MEMBER_DATE), about + end)


def _is_whole(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False
