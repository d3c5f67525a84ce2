"""Slices: dumps of chosen items, made of pages that are stored while they are fetched.

Data missing from a slice is unknown: an entity is not new or removed only because another snapshot has or lacks it. A
note in a file beside the dump marks it as a slice.

A slice also needs the surroundings of its values, their classes and the chains of their containers, so that kgedit can
decide whether a new value is contained in the old one (kgedit.timesteps.kinds). Only current statements of fetched
entities are followed, so each step depends on the previous one.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from kgedit.errors import SourceError
from kgedit.files import replace_file
from kgedit.store.closures import CONTAINMENT
from kgedit.store.files import json_text
from kgedit.wikidata.ids import INSTANCE_OF


def note_beside(dump: Path) -> Path:
    """Path of the note of a slice."""
    return dump.with_name(f"{dump.name}.slice.json")


def write_slice_note(dump: Path, slice_of: str) -> None:
    """Write a note beside a dump that describes its slice."""
    replace_file(note_beside(dump), json_text({"slice_of": slice_of}))


def slice_note(dump: Path) -> str | None:
    """Read the description of a slice from the note beside its dump; None without a note.

    Raises:
        SourceError: if the note cannot be read.
    """
    note = note_beside(dump)
    if not note.is_file():
        return None
    try:
        return str(json.loads(note.read_text(encoding="utf-8"))["slice_of"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{note} cannot be read. It says what {dump.name} is a slice of: write "
            '{"slice_of": "..."} into it, or remove it and give --slice-of.'
        ) from error


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


class Surroundings:
    """Classes and direct containers of the entities fetched so far."""

    def __init__(self) -> None:
        self._classes: dict[str, set[str]] = defaultdict(set)
        self._containers: dict[str, set[str]] = defaultdict(set)

    def add(self, subject: str, property_id: str, value: str) -> None:
        """Record a statement; statements with other properties are ignored."""
        if property_id == INSTANCE_OF:
            self._classes[subject].add(value)
        elif property_id in CONTAINMENT:
            self._containers[subject].add(value)

    def fetch_around(self, values: Iterable[str], steps: int, fetch: Callable[[list[str]], None]) -> int:
        """Fetch values and then their surroundings, one batch per step.

        Args:
            values: Ids of items.
            steps: Maximum number of steps from a value; its class is one step away.
            fetch: Fetches entities by their ids, in this order, unless already fetched, and adds their statements
                to this object.

        Returns:
            Number of ids directly beyond the last step, which were not fetched.
        """
        reached: set[str] = set()
        level = set(values)
        for step in range(steps + 1):
            fetch(sorted(level, key=in_order))
            reached |= level
            outwards = [self._containers[name] for name in level]
            outwards += [self._classes[name] for name in level] if step == 0 else []
            level = set().union(*outwards) - reached
        return len(level)


def in_order(name: str) -> tuple[str, int]:
    """Sort key of an id: letter, then number."""
    return name[0], int(name[1:])
