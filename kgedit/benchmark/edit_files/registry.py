"""The forms of edit files by name; another package adds one through the entry-point group kgedit.edit_formats."""

from kgedit.benchmark.edit_files.contract import EditFormat
from kgedit.registry import Registry

EDIT_FORMATS: Registry[EditFormat] = Registry(
    "form of edit files",
    {
        "counterfact": "kgedit.benchmark.edit_files.counterfact:COUNTERFACT",
        "easyedit": "kgedit.benchmark.edit_files.easyedit:EASYEDIT",
        "wikibigedit": "kgedit.benchmark.edit_files.wikibigedit:WIKIBIGEDIT",
        "wikifactdiff": "kgedit.benchmark.edit_files.wikifactdiff:WIKIFACTDIFF",
        "zsre": "kgedit.benchmark.edit_files.zsre:ZSRE",
    },
    group="kgedit.edit_formats",
)
"""No two of them recognise the same object."""
