"""Files of results: all are written, or none; one that would come out the same does not stand in the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.files import replace_file


def write_files(texts: Mapping[Path, str], *, overwrite: bool) -> list[Path]:
    """Write texts to files; a cell of a notebook, or a command, can be run again with the same result.

    Args:
        texts: By file; parent folders are made.
        overwrite: Whether files with other content are replaced.

    Returns:
        The files, in the order given.

    Raises:
        TimestepError: if a file has other content and is not to be replaced; then none is written.
    """
    for path, text in texts.items():
        if path.exists() and not overwrite and not _holds(path, text):
            raise TimestepError(f"{path} is there already, with other content. Replace it: --overwrite")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    return list(texts)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
