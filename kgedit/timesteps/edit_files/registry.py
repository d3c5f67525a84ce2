"""Formats of edit files by name; another package adds one through the entry-point group kgedit.edit_formats."""

from kgedit.registry import Registry
from kgedit.timesteps.edit_files.contract import EditFormat

EDIT_FORMATS: Registry[EditFormat] = Registry(
    "form of edit files",
    {
        "counterfact": "kgedit.timesteps.edit_files.counterfact:COUNTERFACT",
        "easyedit": "kgedit.timesteps.edit_files.easyedit:EASYEDIT",
        "mquake": "kgedit.timesteps.edit_files.mquake:MQUAKE",
        "wikibigedit": "kgedit.timesteps.edit_files.wikibigedit:WIKIBIGEDIT",
        "wikifactdiff": "kgedit.timesteps.edit_files.wikifactdiff:WIKIFACTDIFF",
        "zsre": "kgedit.timesteps.edit_files.zsre:ZSRE",
    },
    group="kgedit.edit_formats",
)
"""An object matches at most one of them."""
