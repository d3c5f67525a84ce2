"""Checkpoints of a run: between two calls of a method, and within a long call.

A checkpoint is a folder that appears when it is complete; the newest one counts. A second file records progress within
the current call. Data that grows with every edit is not written again: each checkpoint appends the changed rows to
`rows.log` and records how much of that file belongs to it; bytes after that are left over from an interrupted one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load, load_file, save, save_file

from kgedit.checksums import decoding
from kgedit.editing.editor import EditorState
from kgedit.editing.row_tables import RowTable, TableRows
from kgedit.files import give_usual_modes, put_in_place, sync

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
            # Rows of a checkpoint that was interrupted before it was in place.
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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of a run between two calls of its method.

    Attributes:
        timestep: Name of the timestep whose edits are being applied.
        edits: Number of its cases that have been applied.
        lines: Number of lines of edits.jsonl that belong to it and everything before it.
        state: State of the editor.
    """

    timestep: str
    edits: int
    lines: int
    state: EditorState


@dataclass(frozen=True, slots=True)
class CallCheckpoint:
    """State within one call of a method.

    Attributes:
        timestep: Name of the timestep whose edits are being applied.
        first: Number of its cases that were applied before the call.
        cases: Number of cases of the call.
        seconds: Wall time spent on the call so far.
        cpu_seconds: Processor time spent on the call so far.
        state: State that the method resumes from.
    """

    timestep: str
    first: int
    cases: int
    seconds: float
    cpu_seconds: float
    state: EditorState


_ROWS = "rows"
"""Key of state.json: number of bytes of rows.log that belong to the checkpoint."""

AnyCheckpoint = TypeVar("AnyCheckpoint", Checkpoint, CallCheckpoint)


_START_AGAIN = "The run cannot be resumed. Start it again: kgedit run-edit with --overwrite"


class Checkpoints:
    """Checkpoints of one run.

    Args:
        path: Folder of the checkpoints, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._call = path / "call"
        self._rows = RowLog(path / "rows.log")

    def newest(self) -> Checkpoint | None:
        """Newest complete checkpoint between two calls."""
        found = self._numbered()
        if not found:
            return None
        checkpoint = _read(found[-1], Checkpoint)
        tables = self._rows.read(_length_of_rows(found[-1]))
        return replace(checkpoint, state=replace(checkpoint.state, tables=tables))

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint and delete the previous one.

        Args:
            checkpoint: Tables of its state contain all rows, or those changed since the previous checkpoint.
        """
        older = self._numbered()
        number = int(older[-1].name) + 1 if older else 1
        # Rows first: a checkpoint in place never refers to rows that are not written.
        length = self._rows.append(_length_of_rows(older[-1]) if older else 0, checkpoint.state.tables)
        _write(self._path / f"{number:06d}", checkpoint, rows=length)
        for path in (*older, self._call):
            _drop(path)

    def of_call(self, timestep: str, first: int, cases: int) -> CallCheckpoint | None:
        """Checkpoint of an interrupted call with these cases."""
        found = _read(self._call, CallCheckpoint) if self._call.is_dir() else None
        same = found is not None and (found.timestep, found.first, found.cases) == (timestep, first, cases)
        return found if same else None

    def save_call(self, checkpoint: CallCheckpoint) -> None:
        """Replace the checkpoint within a call."""
        _write(self._call, checkpoint)

    def _numbered(self) -> list[Path]:
        return sorted(path for path in self._path.glob("*") if path.name.isdigit())


def _length_of_rows(folder: Path) -> int:
    """Number of bytes of rows.log that belong to a checkpoint."""
    path = folder / "state.json"
    with decoding(path, fix=_START_AGAIN):
        return int(json.loads(path.read_bytes()).get(_ROWS, 0))


def _write(folder: Path, checkpoint: Checkpoint | CallCheckpoint, *, rows: int = 0) -> None:
    """Write to a temporary folder, then rename it."""
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tensors = {name: tensor.contiguous().cpu() for name, tensor in checkpoint.state.tensors.items()}
    save_file(tensors, partial / "state.safetensors")
    record = {item.name: getattr(checkpoint, item.name) for item in fields(checkpoint) if item.name != "state"}
    whole = json.dumps({**record, _ROWS: rows, "record": checkpoint.state.record}, ensure_ascii=False, indent=1)
    (partial / "state.json").write_text(whole, encoding="utf-8")
    give_usual_modes(partial)
    _drop(folder)
    for lines in (folder.parents[1] / name for name in ("answers.jsonl", "edits.jsonl")):
        if lines.is_file():
            sync(lines)  # a checkpoint implies that these lines were written
    put_in_place(partial, folder)


def _drop(folder: Path) -> None:
    """Remove a folder; if interrupted at any point, it exists as a whole or not at all."""
    aside = folder.with_suffix(".dropped")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.is_dir():
        folder.rename(aside)
        shutil.rmtree(aside)


def _read(folder: Path, kind: type[AnyCheckpoint]) -> AnyCheckpoint:
    with decoding(folder, fix=_START_AGAIN):
        record = json.loads((folder / "state.json").read_bytes())
        record.pop(_ROWS, None)
        state = EditorState(load_file(folder / "state.safetensors"), record.pop("record"))
        return kind(**record, state=state)
