"""Where kgedit's data files are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_PACKAGE = Path(__file__).parent


def data_folder(name: str) -> Path:
    """Folder of data files shipped with kgedit: "cypher" or "prompts"."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def home() -> Path:
    """The folder of snapshots, graph and benchmarks: $KGEDIT_HOME, by default ./kgedit-data."""
    return Path(os.environ.get("KGEDIT_HOME", "kgedit-data")).absolute()


def cache() -> Path:
    """Downloads shared by all homes (server jars): $KGEDIT_CACHE, by default the user's cache folder."""
    configured = os.environ.get("KGEDIT_CACHE")
    if configured:
        return Path(configured).absolute()
    return platformdirs.user_cache_path("kgedit", appauthor=False)
