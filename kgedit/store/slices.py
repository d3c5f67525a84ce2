"""Slices: dumps of chosen items, marked by a note in a file beside the dump.

Data missing from a slice is unknown: an entity is not new or removed only because another snapshot has or lacks it.
"""

from __future__ import annotations

import json
from pathlib import Path

from kgedit.errors import SourceError
from kgedit.files import replace_file
from kgedit.store.files import json_text


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
