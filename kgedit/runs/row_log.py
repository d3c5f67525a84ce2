"""An append-only file of table rows, shared by the checkpoints of growing memories.

An entry contains the rows of every table that changed between two checkpoints. A checkpoint records the length of the
file that belongs to it; bytes after that length are left over from an interrupted checkpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path

import torch
from safetensors.torch import load, save

from kgedit.checksums import decoding
from kgedit.editing.row_tables import RowTable, TableRows

_SIZES = 8
"""Number of bytes of each of the two sizes at the start of an entry."""


class RowLog:
    """Row log of one run.

    Args:
        path: Path of the file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, length: int, tables: Mapping[str, TableRows]) -> int:
        """Append rows after the first `length` bytes, and return the new length.

        Tables given with all their rows replace what was written of them before.
        """
        if not tables:
            return length
        head: dict[str, object] = {}
        tensors: dict[str, torch.Tensor] = {}
        for name, rows in tables.items():
            head[name] = {"count": rows.count, "indexes": rows.indexes, "labels": rows.labels}
            tensors |= {f"{name}/{column}": part.contiguous().cpu() for column, part in rows.columns.items()}
        parts = [json.dumps(head, ensure_ascii=False).encode(), save(tensors)]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("r+b" if self._path.is_file() else "w+b") as file:
            file.truncate(length)
            file.seek(length)
            file.write(b"".join(len(part).to_bytes(_SIZES, "big") for part in parts) + b"".join(parts))
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def read(self, length: int) -> dict[str, TableRows]:
        """Read the complete tables from the first `length` bytes."""
        tables: dict[str, RowTable] = {}
        if length:
            fix = "The run cannot be resumed. Start it again: kgedit run-edit with --overwrite"
            with decoding(self._path, fix=fix), self._path.open("rb") as file:
                for name, rows in _entries(file, length):
                    if rows.indexes is None:
                        tables[name] = RowTable()
                    tables.setdefault(name, RowTable()).apply(rows)
        return {name: table.content() for name, table in tables.items()}


def _entries(file: BufferedReader, length: int) -> Iterator[tuple[str, TableRows]]:
    while file.tell() < length:
        sizes = [int.from_bytes(file.read(_SIZES), "big") for _ in range(2)]
        head, tensors = json.loads(file.read(sizes[0])), load(file.read(sizes[1]))
        for name, own in head.items():
            indexes = None if own["indexes"] is None else tuple(own["indexes"])
            columns = {key.partition("/")[2]: part for key, part in tensors.items() if key.startswith(f"{name}/")}
            yield name, TableRows(own["count"], indexes, columns, tuple(own["labels"]))
