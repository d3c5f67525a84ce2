"""Counts of entities in a corpus: from a table of counts, or counted in texts (kgedit.timesteps.text_counts)."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from kgedit.errors import TimestepError
from kgedit.timesteps.text_counts import count_in_texts, is_text, text_files


def corpus_counts(path: Path, labels: Collection[str]) -> dict[str, int]:
    """Counts by label or id.

    Args:
        path: A table of counts (`read_counts`), or texts: a file or a folder of .txt, .jsonl or .parquet.
        labels: Labels to count in texts; a table is read whole.

    Raises:
        TimestepError: if a file cannot be read, or a folder has no texts.
    """
    if path.is_dir() or is_text(path):
        return count_in_texts(text_files(path), labels)
    return read_counts(path)


def corpus_version(path: Path) -> dict[str, str]:
    """File name -> SHA-256 of a table of counts, or of each text."""
    found = {}
    for file in text_files(path) if path.is_dir() else [path]:
        with file.open("rb") as content:
            name = file.relative_to(path).as_posix() if path.is_dir() else file.name
            found[name] = hashlib.file_digest(content, "sha256").hexdigest()
    return found


def read_counts(path: Path) -> dict[str, int]:
    """Read counts by label or id.

    Args:
        path: A JSON object, or a file with one pair per line: "label<tab>count", or CSV with the count last. A first
            line whose count is not a number is a header.

    Raises:
        TimestepError: if a line is not such a pair; the message names the first.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TimestepError(f"The counts {path} cannot be read: {error}.") from error
    if path.suffix == ".json":
        return _from_json(text, path)
    lines = text.splitlines()
    rows = csv.reader(lines, delimiter="\t" if "\t" in text else ",")
    counts: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        try:
            counts[row[0]] = int(row[-1]) if len(row) > 1 else int("no count")
        except ValueError as error:
            if number > 1:
                raise _no_pair(path, f"line {number}") from error
    return counts


def _from_json(text: str, path: Path) -> dict[str, int]:
    try:
        counts = json.loads(text)
    except json.JSONDecodeError as error:
        raise _no_pair(path, f"line {error.lineno}") from error
    if not isinstance(counts, dict) or not all(type(count) is int for count in counts.values()):
        raise _no_pair(path, "the object")
    return counts


def _no_pair(path: Path, where: str) -> TimestepError:
    return TimestepError(
        f"{where.capitalize()} of {path} is no label with a whole number. Give a line for each: label, tab, count."
    )
