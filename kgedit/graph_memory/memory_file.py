"""A memory as one file: its tables as Parquet and what it was made from, in a zip archive that others can open.

The same memory gives the same bytes, and a file is replaced as a whole, so that a server can read it at any moment.
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
"""Raised whenever older versions of kgedit could not read a new file."""

_MANIFEST = "memory.json"
_USUAL_SUFFIX = ".kgmemory"
_MOST_LISTED = 6
_BEGINNING_OF_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The content of a file.

    Attributes:
        tables: What kgedit.graph_memory.graph_memory.GraphMemory.tables returned.
        manifest: What it was made from (`sources`, oldest first), counts, versions.
        sha256: Hash of the file.
    """

    tables: Mapping[str, pa.Table]
    manifest: Mapping[str, Any]
    sha256: str


def write_memory_file(path: Path, tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]) -> str:
    """Write a memory beside its place and rename it.

    Returns:
        The hash of the file.

    Raises:
        KgeditError: if the folder is not there or cannot be written.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, table in sorted(tables.items()):
            part = io.BytesIO()
            pq.write_table(table, part, compression="zstd")
            _add(archive, f"{name}.parquet", part.getvalue())
        told = json.dumps({"form": FORM, **manifest}, indent=2, ensure_ascii=False, sort_keys=True)
        _add(archive, _MANIFEST, told.encode())
    try:
        replace_file(path, content.getvalue())
    except OSError as error:
        raise KgeditError(f"The memory cannot be written to {path} ({error}). Give --out a writable place.") from error
    return hashlib.sha256(content.getbuffer()).hexdigest()


def read_memory_file(path: Path) -> MemoryFile:
    """Read a memory.

    Raises:
        KgeditError: if the file is missing, damaged, or none of a memory.
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
    """That there is no such file, and the memories that are in the same folder."""
    what = f"{path} is a folder." if path.is_dir() else f"There is no memory {path}."
    folder = path if path.is_dir() else path.parent
    there = sorted(str(file) for file in folder.glob(f"*{_USUAL_SUFFIX}"))
    hint = f"Memories there are: {', '.join(there[:_MOST_LISTED])}." if there else "Build one with kgedit memory build."
    return f"{what} {hint}"


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a part without the time at which that happens."""
    archive.writestr(zipfile.ZipInfo(name, _BEGINNING_OF_TIME), content)
