"""Jars as Java reads them: Browser's with the page that connects it, and Eclipse Collections' without signatures.

Neo4j looks up about sixty services of Eclipse Collections. Java opens both jars again for each lookup and reads a
signed manifest of eight thousand files, which takes a fifth of a small import. The lock's hashes are checked when the
jars are installed, so copies without signatures can replace them.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from kgedit.files import replace_file
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
    """Remove copies whose content is damaged, so that they are written again, and return their names."""
    damaged = [copy for copy in jar_folder().parent.glob(f"*{_COPY}") if not _is_whole(copy)]
    for copy in damaged:
        with suppress(OSError):  # in a read-only cache Java fails again, and that error is reported
            copy.unlink()
    return [copy.name for copy in damaged]


def _without_signatures(original: Path) -> Path:
    """The copy, in the user's cache; the original if it is missing and cannot be written there."""
    # Beside the folder of the jars, which holds what the lock lists and nothing else.
    copy = original.parent.with_name(original.stem + _COPY)
    if not copy.is_file():
        try:
            replace_file(copy, _unsigned(original))
        except (OSError, zipfile.BadZipFile, KeyError):  # a damaged original is found when Java cannot run it
            return original
    return copy


def _unsigned(jar: Path) -> bytes:
    """Content of a jar without its signatures, and with the part of its manifest that lists no files."""
    content = BytesIO(jar.read_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        about, end, _ = archive.read(_MANIFEST).partition(b"\r\n\r\n")
        for name in filter(_SIGNATURE.fullmatch, archive.namelist()):
            archive.filelist.remove(archive.NameToInfo.pop(name))
        # Writing a member is what makes zipfile write the directory again.
        archive.writestr(zipfile.ZipInfo(_MANIFEST, _MEMBER_DATE), about + end)
    return content.getvalue()


def _is_whole(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile):
        return False
