"""Result files: all are written or none; an existing file with the same content is no conflict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.files import replace_file


def write_files(texts: Mapping[Path, str], *, overwrite: bool) -> list[Path]:
    """Write texts to files, so that a notebook cell or a command can be run again with the same result.

    Args:
        texts: Text by file; parent folders are created.
        overwrite: Whether to replace files with other content.

    Returns:
        Files, in the given order.

    Raises:
        TimestepError: if a file has other content and must not be replaced; then none is written.
    """
    for path, text in texts.items():
        if path.exists() and not overwrite and not _holds(path, text):
            raise TimestepError(f"{path} already exists, with other content. Replace it: --overwrite")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    return list(texts)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
