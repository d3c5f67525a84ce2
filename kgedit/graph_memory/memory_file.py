"""Memory files: tables as Parquet and a manifest, in a zip archive that other programs can open.

The same memory gives the same bytes. A file is replaced as a whole, so that a server can read it at any time.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgedit.errors import KgeditError
from kgedit.files import replace_file

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
