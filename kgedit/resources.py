"""Locations of kgedit's data files: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import platformdirs

from kgedit.errors import StoreError

_PACKAGE = Path(__file__).parent
_home_in_use: ContextVar[Path | None] = ContextVar("home_in_use", default=None)


def data_folder(name: str) -> Path:
    """Folder of data files shipped with kgedit: "cypher" or "prompts"."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def citation_file() -> Path:
    """Path of CITATION.cff, which states how to cite kgedit and its results."""
    installed = _PACKAGE / "_data" / "CITATION.cff"
    return installed if installed.is_file() else _PACKAGE.parent / "CITATION.cff"


def home() -> Path:
    """Folder of snapshots, graph, timesteps and runs: that of `use_home`, else $KGEDIT_HOME, else ./kgedit-data."""
    return _home_in_use.get() or utf8_folder(os.environ.get("KGEDIT_HOME") or "kgedit-data")


def utf8_folder(folder: str | Path) -> Path:
    """Return the absolute path of a folder after checking that every library can write its name.

    DuckDB, Arrow and Java encode file names as UTF-8, regardless of the locale. With another encoding they would write
    to another file, or fail with an obscure error.

    Raises:
        StoreError: if the path is not UTF-8, or the system's encoding of file names would change it.
    """
    path = Path(folder).absolute()
    try:
        if os.fsencode(path) == str(path).encode("utf-8"):
            return path
    except UnicodeEncodeError:
        pass
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        raise StoreError(
            f"The folder {str(path)!a} cannot be used: its name is not UTF-8. Rename it, or choose another."
        )
    raise StoreError(
        f"The folder {str(path)!a} cannot be used: names of files are {encoding} in this locale, and UTF-8 in DuckDB "
        "and Arrow. Set PYTHONUTF8=1, or choose a folder whose name is ASCII."
    )


def as_typed(path: Path) -> Path:
    """A path as users would type it: relative if it is below the working directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@contextmanager
def use_home(folder: str | Path | None) -> Iterator[None]:
    """Make `home` return a folder inside the context; None changes nothing."""
    token = _home_in_use.set(home() if folder is None else utf8_folder(folder))
    try:
        yield
    finally:
        _home_in_use.reset(token)


def cache() -> Path:
    """Folder of downloads shared by all homes (server jars): $KGEDIT_CACHE, by default the user's cache folder."""
    configured = os.environ.get("KGEDIT_CACHE")
    if configured:
        return utf8_folder(configured)
    return platformdirs.user_cache_path("kgedit", appauthor=False)
