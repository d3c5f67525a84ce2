"""Stores pages in a folder while they are fetched, so that no page is requested twice."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from kgedit.errors import SourceError
from kgedit.files import replace_file
from kgedit.store.slices import write_slice_note


class FetchedPages:
    """Fetched pages of one file, in a folder beside it that is deleted when the file is complete.

    Args:
        target: Destination; ".gz" compresses it.
        plan: Identifies the fetch; pages of another plan are deleted.
        overwrite: Whether an existing file may be replaced.

    Raises:
        SourceError: if the file exists.
    """

    def __init__(self, target: Path, plan: Mapping[str, Any], *, overwrite: bool) -> None:
        if target.exists() and not overwrite:
            raise SourceError(f"{target} already exists. Name another file, or add --overwrite.")
        self.target = target
        self.folder = target.with_name(f".{target.name}.pages")
        marker = self.folder / "plan.json"
        wanted = json.dumps(plan, sort_keys=True)
        if not (marker.is_file() and marker.read_text(encoding="utf-8") == wanted):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            replace_file(marker, wanted)

    def get(self, name: str) -> bytes | None:
        """A page fetched before; None if it has not been fetched."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, content: bytes) -> bytes:
        """Store a page and return its content."""
        replace_file(self.folder / name, content)
        return content

    def finish(self, names: Iterable[str], *, slice_of: str) -> Path:
        """Combine the pages into the file, with the note that it is a slice, and delete the folder."""
        aside = self.target.with_name(f".{self.target.name}.aside")
        with _opened(aside, compressed=self.target.suffix == ".gz") as file:
            for name in names:
                file.write((self.folder / name).read_bytes())
        write_slice_note(self.target, slice_of)
        aside.replace(self.target)
        shutil.rmtree(self.folder)
        return self.target


def _opened(path: Path, *, compressed: bool) -> IO[bytes]:
    if compressed:
        return gzip.GzipFile(path, "wb", mtime=0)  # type: ignore[return-value]
    return path.open("wb")


def batches(names: list[str], size: int) -> Iterator[list[str]]:
    """Split into lists of at most `size` entries, in order."""
    for start in range(0, len(names), size):
        yield names[start : start + size]
