"""Writers of other people's forms, made from a finished timestep; each loses nothing silently."""

from collections.abc import Callable
from pathlib import Path

from kgedit.benchmark.timestep import Timestep
from kgedit.registry import Registry

EXPORTERS: Registry[Callable[[Timestep], Path]] = Registry(
    "export form",
    {
        "easyedit": "kgedit.exporters.easyedit:export",
        "wikibigedit": "kgedit.exporters.wikibigedit:export",
        "wikifactdiff": "kgedit.exporters.wikifactdiff:export",
    },
    group="kgedit.exporters",
)
"""Functions that write one file beside a timestep's tables and return its path."""
