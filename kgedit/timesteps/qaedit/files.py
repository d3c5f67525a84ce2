"""A QAEdit file and its provenance, in one folder: NAME.json and NAME.provenance.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgedit.errors import TimestepError
from kgedit.files import replace_file
from kgedit.resources import data_folder
from kgedit.wording.catalogues import content_hash

FORMAT = 1
"""Version of the provenance."""


def provenance_path(path: Path) -> Path:
    """Path of the provenance of a file."""
    return path.with_name(f"{path.stem}.provenance.json")


def refuse_to_replace(path: Path, *, overwrite: bool) -> None:
    """Check that a file may be written.

    Raises:
        TimestepError: if it exists, or its folder does not.
    """
    if path.exists() and not overwrite:
        raise TimestepError(f"{path} is there already. Replace it: --overwrite")
    if not path.absolute().parent.is_dir():
        raise TimestepError(f"There is no folder {path.absolute().parent} for the file. Make it: mkdir -p")


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Write a JSON list with one object per line, and its provenance.

    Returns:
        The provenance with the number of rows and the hash of the list.
    """
    content = "".join(_lines(rows)).encode()
    told = {**provenance, "rows": len(rows), "sha256": hashlib.sha256(content).hexdigest()}
    replace_file(path, content)
    replace_file(provenance_path(path), json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return told


def rules_hash() -> str:
    """Hash of all rules and prompts that rows depend on."""
    return content_hash(sorted((data_folder("prompts") / "qaedit").iterdir()))


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "[\n"
    for number, row in enumerate(rows):
        yield json.dumps(row, ensure_ascii=False)
        yield ",\n" if number < len(rows) - 1 else "\n"
    yield "]\n"
