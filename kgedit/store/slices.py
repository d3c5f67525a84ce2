"""Slices: dumps of chosen items. A slice knows that it is one, by a note in a file beside it.

What a slice lacks is unknown: nothing in it is new or removed merely because another snapshot has or lacks the entity.
"""

from __future__ import annotations

import json
from pathlib import Path

from kgedit.errors import SourceError
from kgedit.files import replace_file
from kgedit.store.files import json_text


def note_beside(dump: Path) -> Path:
    """Where the note of a slice lies."""
    return dump.with_name(f"{dump.name}.slice.json")


def write_slice_note(dump: Path, slice_of: str) -> None:
    """Write beside a dump what it is a slice of."""
    replace_file(note_beside(dump), json_text({"slice_of": slice_of}))


def slice_note(dump: Path) -> str | None:
    """What the note beside a dump says that it is a slice of; None where there is no note.

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
