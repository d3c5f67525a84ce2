"""Export a finished timestep to other projects' formats; each exporter reports what its format cannot represent."""

from collections.abc import Callable
from pathlib import Path

from kgedit.registry import Registry
from kgedit.timesteps.timestep import Timestep

EXPORTERS: Registry[Callable[[Timestep], Path]] = Registry(
    "export form",
    {
        "easyedit": "kgedit.exporters.easyedit:export",
        "unke": "kgedit.exporters.unke:export",
        "wikibigedit": "kgedit.exporters.wikibigedit:export",
        "wikifactdiff": "kgedit.exporters.wikifactdiff:export",
    },
    group="kgedit.exporters",
)
"""Functions that write one file beside a timestep's tables and return its path."""
