"""Where kgedit's data files are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import platformdirs

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
    return _home_in_use.get() or Path(os.environ.get("KGEDIT_HOME", "kgedit-data")).absolute()


def as_typed(path: Path) -> Path:
    """A path as users type it: relative where it is below the working directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@contextmanager
def use_home(folder: str | Path | None) -> Iterator[None]:
    """Make `home` answer with a folder; None leaves it as it is."""
    token = _home_in_use.set(home() if folder is None else Path(folder).absolute())
    try:
        yield
    finally:
        _home_in_use.reset(token)


def cache() -> Path:
    """Downloads shared by all homes (server jars): $KGEDIT_CACHE, by default the user's cache folder."""
    configured = os.environ.get("KGEDIT_CACHE")
    if configured:
        return Path(configured).absolute()
    return platformdirs.user_cache_path("kgedit", appauthor=False)
