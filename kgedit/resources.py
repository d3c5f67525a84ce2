"""Where kgedit's data files are: beside the package in a checkout, inside it in a wheel."""

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
    """CITATION.cff: how kgedit, and what it makes, is cited."""
    installed = _PACKAGE / "_data" / "CITATION.cff"
    return installed if installed.is_file() else _PACKAGE.parent / "CITATION.cff"


def home() -> Path:
    """The folder of snapshots, graph, timesteps and runs: that of `use_home`, else $KGEDIT_HOME, else ./kgedit-data."""
    return _home_in_use.get() or utf8_folder(os.environ.get("KGEDIT_HOME", "kgedit-data"))


def utf8_folder(folder: str | Path) -> Path:
    """The absolute path of a folder, whose name every library can write.

    DuckDB, Arrow and Java encode names of files as UTF-8, whatever the locale is: another name would be another file to
    them, or an error deep inside.

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
    """A path as users type it: relative where it is below the working directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@contextmanager
def use_home(folder: str | Path | None) -> Iterator[None]:
    """Make `home` answer with a folder; None leaves it as it is."""
    token = _home_in_use.set(home() if folder is None else utf8_folder(folder))
    try:
        yield
    finally:
        _home_in_use.reset(token)


def cache() -> Path:
    """Downloads shared by all homes (server jars): $KGEDIT_CACHE, by default the user's cache folder."""
    configured = os.environ.get("KGEDIT_CACHE")
    if configured:
        return utf8_folder(configured)
    return platformdirs.user_cache_path("kgedit", appauthor=False)
