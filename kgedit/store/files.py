"""Writing aside and renaming, so that a file or folder is either whole or not there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text at once."""
    aside = path.with_name(f".{path.name}.aside")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file by JSON with a fixed order and layout."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def replace_folder(aside: Path, folder: Path) -> None:
    """Put a finished folder in place of another, which may not exist."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
