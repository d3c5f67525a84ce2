"""Work that is fetched page by page into a folder, so that what was fetched once is not asked for again."""

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
    """The pages of one file to be: a folder beside it, which goes when the file is whole.

    Args:
        target: The file to be; ".gz" compresses it.
        plan: What makes another fetch another one; pages of another plan are thrown away.
        overwrite: Whether a file that is there may be replaced.

    Raises:
        SourceError: if the file is there.
    """

    def __init__(self, target: Path, plan: Mapping[str, Any], *, overwrite: bool) -> None:
        if target.exists() and not overwrite:
            raise SourceError(f"{target} is there already. Name another file, or add --overwrite.")
        self.target = target
        self.folder = target.with_name(f".{target.name}.pages")
        marker = self.folder / "plan.json"
        wanted = json.dumps(plan, sort_keys=True)
        if not (marker.is_file() and marker.read_text(encoding="utf-8") == wanted):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            replace_file(marker, wanted)

    def get(self, name: str) -> bytes | None:
        """A page that was fetched; None if it was not."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def put(self, name: str, content: bytes) -> bytes:
        """Keep a page; returns its content."""
        replace_file(self.folder / name, content)
        return content

    def finish(self, names: Iterable[str], *, slice_of: str) -> Path:
        """Put the pages together as the file, with the note that it is a slice; the folder goes."""
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
    """Lists of at most so many, in order."""
    for start in range(0, len(names), size):
        yield names[start : start + size]
