"""Memory files: tables as Parquet and a manifest, in a zip archive that other programs can open.

The same memory gives the same bytes. A file is replaced as a whole, so that a server can read it at any time. Replacing
it by one of newer sources reports what changed and keeps a copy of the previous file, for `roll_back`.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import KgeditError
from kgedit.files import put_in_place, replace_file
from kgedit.graph_memory.dates import HOLDS, date_text
from kgedit.store.engine import select

FORM = 1
"""Version of the format, increased when older versions of kgedit cannot read new files."""

_MANIFEST = "memory.json"
_USUAL_SUFFIX = ".kgmemory"
_MOST_LISTED = 6
_BEGINNING_OF_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """Content of a memory file.

    Attributes:
        tables: Result of kgedit.graph_memory.graph_memory.GraphMemory.tables.
        manifest: Sources (oldest first), counts and versions.
        sha256: SHA-256 of the file.
    """

    tables: Mapping[str, pa.Table]
    manifest: Mapping[str, Any]
    sha256: str


def write_memory_file(path: Path, tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> str:
    """Write a memory file atomically.

    Returns:
        SHA-256 of the file.

    Raises:
        KgeditError: if the folder is missing or not writable.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, table in sorted(tables.items()):
            part = io.BytesIO()
            pq.write_table(table, part, compression="zstd")
            _add(archive, f"{name}.parquet", part.getvalue())
        text = json.dumps({"form": FORM, **manifest}, indent=2, ensure_ascii=False, sort_keys=True)
        _add(archive, _MANIFEST, text.encode())
    try:
        replace_file(path, content.getvalue())
    except OSError as error:
        raise KgeditError(f"The memory cannot be written to {path} ({error}). Give --out a writable place.") from error
    return hashlib.sha256(content.getbuffer()).hexdigest()


def read_memory_file(path: Path) -> MemoryFile:
    """Read a memory.

    Raises:
        KgeditError: if the file is missing, damaged or not a memory.
    """
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            names = [name for name in archive.namelist() if name.endswith(".parquet")]
            tables = {name.removesuffix(".parquet"): pq.read_table(io.BytesIO(archive.read(name))) for name in names}
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise KgeditError(_why_no_file(path)) from error
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, pa.ArrowInvalid) as error:
        raise KgeditError(
            f"{path} is not a memory, or is damaged ({error}). Give a file that kgedit memory build wrote, or build it "
            "again."
        ) from error
    if manifest.get("form") != FORM:
        raise KgeditError(
            f"{path} was written by kgedit {manifest.get('kgedit', '?')} in another form. Build it again with this one."
        )
    return MemoryFile(tables, manifest, hashlib.sha256(content).hexdigest())


def _why_no_file(path: Path) -> str:
    """Message about a missing file, with the memories in the same folder."""
    what = f"{path} is a folder." if path.is_dir() else f"There is no memory {path}."
    folder = path if path.is_dir() else path.parent
    there = sorted(str(file) for file in folder.glob(f"*{_USUAL_SUFFIX}"))
    hint = f"Memories there are: {', '.join(there[:_MOST_LISTED])}." if there else "Build one with kgedit memory build."
    return f"{what} {hint}"


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a part with a constant time, so that the same content gives the same bytes."""
    archive.writestr(zipfile.ZipInfo(name, _BEGINNING_OF_TIME), content)


_PREVIOUS = ".previous"

_FACTS = """
    SELECT subject.id AS subject, subject_text.text AS subject_label, relations.id AS relation, relations.name,
           thing.id AS object, coalesce(own.text, object_text.text, thing.id) AS object_label, "values".until AS until
    FROM "values" JOIN rows ON rows.n = "values".row
    JOIN relations ON relations.n = rows.relation JOIN things subject ON subject.n = rows.subject
    JOIN things thing ON thing.n = "values".thing
    LEFT JOIN texts subject_text ON subject_text.n = subject.label
    LEFT JOIN texts object_text ON object_text.n = thing.label LEFT JOIN texts own ON own.n = "values".value_label
"""
_KEY = ("subject", "relation", "object")


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """Changes between two memories.

    Attributes:
        begun: Facts that are current only in the new memory.
        ended: Facts that are current only in the old memory and have ended in the new one.
        gone: Facts that are current only in the old memory and are not in the new one.
        unchanged: Number of facts that are current in both.
    """

    begun: tuple[str, ...]
    ended: tuple[str, ...]
    gone: tuple[str, ...]
    unchanged: int

    def record(self) -> dict[str, Any]:
        """The changes as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def signature_of(sources: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of a memory's sources with their hashes, days and properties; equal sources have equal signatures."""
    return hashlib.sha256(json.dumps(sources, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def difference(old: Mapping[str, pa.Table], new: Mapping[str, pa.Table]) -> MemoryDifference:
    """Compare the facts of two memories' tables, by the ids of subject, relation and object."""
    facts = {"old": _facts(old), "new": _facts(new)}
    keys, holds = ", ".join(_KEY), f"until = {HOLDS}"
    started = f"SELECT * FROM new WHERE {holds} AND ({keys}) NOT IN (SELECT ({keys}) FROM old WHERE {holds})"
    stopped = f"SELECT * FROM old WHERE {holds} AND ({keys}) NOT IN (SELECT ({keys}) FROM new WHERE {holds})"
    order = f"ORDER BY {keys}"
    begun = select(f"{started} {order}", **facts)
    ended = select(
        f"""
        SELECT stopped.* REPLACE (newer.until AS until) FROM ({stopped}) stopped
        JOIN (SELECT {keys}, max(until) AS until FROM new GROUP BY ALL) newer USING ({keys}) {order}
        """,
        **facts,
    )
    gone = select(f"{stopped} AND ({keys}) NOT IN (SELECT ({keys}) FROM new) {order}", **facts)
    current = select(f"SELECT count(*) AS count FROM new WHERE {holds}", **facts)["count"][0].as_py()
    return MemoryDifference(_lines(begun), _lines(ended), _lines(gone), current - begun.num_rows)


def replace_memory(path: Path, fresh: Path) -> None:
    """Put a new file in place of a memory, and keep the memory as its previous version."""
    replace_file(previous_of(path), path.read_bytes())
    put_in_place(fresh, path)


def roll_back(path: Path) -> str:
    """Swap a memory and its previous version, so that a second call undoes the first.

    Returns:
        SHA-256 of the file that is in place now.

    Raises:
        KgeditError: if there is no readable previous version.
    """
    earlier = previous_of(path)
    if not earlier.is_file():
        raise KgeditError(f"{path} has no previous version ({earlier}). Nothing was changed.")
    restored = read_memory_file(earlier)
    content, before = earlier.read_bytes(), path.read_bytes()
    replace_file(path, content)
    replace_file(earlier, before)
    return restored.sha256


def previous_of(path: Path) -> Path:
    """Path of a memory's previous version."""
    return path.with_name(f"{path.name}{_PREVIOUS}")


def _facts(tables: Mapping[str, pa.Table]) -> pa.Table:
    numbered = {
        name: tables[name].append_column("n", pa.array(np.arange(tables[name].num_rows)))
        for name in ("values", "rows", "relations", "things", "texts")
    }
    return select(_FACTS, **numbered)


def _lines(facts: pa.Table) -> tuple[str, ...]:
    return tuple(
        f"{fact['subject_label'] or fact['subject']}, {fact['name'] or fact['relation']}: {fact['object_label']}"
        + (f", until {date_text(fact['until'])}" if fact["until"] != HOLDS else "")
        + f" ({fact['subject']}:{fact['relation']}:{fact['object']})"
        for fact in facts.to_pylist()
    )
