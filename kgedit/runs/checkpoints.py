"""Checkpoints of a run: between two calls of a method, and within one that takes long.

A checkpoint is a folder that appears when it is whole; the newest counts. Beside it stands how far the call under way
has come since. What grows with every edit is not written again: each checkpoint appends the rows that changed to
`rows.log` and says how much of that file belongs to it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

from safetensors.torch import load_file, save_file

from kgedit.checksums import decoding
from kgedit.editing.editor import EditorState
from kgedit.files import give_usual_modes, put_in_place, sync
from kgedit.runs.row_log import RowLog


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run stood between two calls of its method.

    Attributes:
        timestep: Name of the timestep being learned.
        edits: Cases of it that have been applied.
        lines: Lines of edits.jsonl that belong to it and to what came before.
        state: The editor's.
    """

    timestep: str
    edits: int
    lines: int
    state: EditorState


@dataclass(frozen=True, slots=True)
class CallCheckpoint:
    """Where one call of a method stood.

    Attributes:
        timestep: Name of the timestep being learned.
        first: Cases of it that were applied before the call.
        cases: Cases of the call.
        seconds: Spent on the call so far.
        cpu_seconds: Likewise, of the processor.
        state: What the method resumes from.
    """

    timestep: str
    first: int
    cases: int
    seconds: float
    cpu_seconds: float
    state: EditorState


_ROWS = "rows"
"""Key of state.json: bytes of rows.log that belong to the checkpoint."""

AnyCheckpoint = TypeVar("AnyCheckpoint", Checkpoint, CallCheckpoint)


_START_AGAIN = "The run cannot be resumed. Start it again: kgedit run-edit with --overwrite"


class Checkpoints:
    """The checkpoints of one run.

    Args:
        path: Their folder, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._call = path / "call"
        self._rows = RowLog(path / "rows.log")

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint between two calls."""
        found = self._numbered()
        if not found:
            return None
        checkpoint = _read(found[-1], Checkpoint)
        tables = self._rows.read(_length_of_rows(found[-1]))
        return replace(checkpoint, state=replace(checkpoint.state, tables=tables))

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and drop what was before it.

        Args:
            checkpoint: Tables of its state hold all rows, or those that changed since the checkpoint before.
        """
        older = self._numbered()
        number = int(older[-1].name) + 1 if older else 1
        length = self._rows.append(_length_of_rows(older[-1]) if older else 0, checkpoint.state.tables)
        _write(self._path / f"{number:06d}", checkpoint, rows=length)
        for path in (*older, self._call):
            _drop(path)

    def of_call(self, timestep: str, first: int, cases: int) -> CallCheckpoint | None:
        """The checkpoint of an interrupted call with these cases."""
        found = _read(self._call, CallCheckpoint) if self._call.is_dir() else None
        same = found is not None and (found.timestep, found.first, found.cases) == (timestep, first, cases)
        return found if same else None

    def save_call(self, checkpoint: CallCheckpoint) -> None:
        """Replace the checkpoint within a call."""
        _write(self._call, checkpoint)

    def _numbered(self) -> list[Path]:
        return sorted(path for path in self._path.glob("*") if path.name.isdigit())


def _length_of_rows(folder: Path) -> int:
    """Bytes of rows.log that belong to a checkpoint."""
    path = folder / "state.json"
    with decoding(path, fix=_START_AGAIN):
        return int(json.loads(path.read_bytes()).get(_ROWS, 0))


def _write(folder: Path, checkpoint: Checkpoint | CallCheckpoint, *, rows: int = 0) -> None:
    """Write beside the file, then rename over it."""
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
            sync(lines)  # a checkpoint says that these lines were written
    put_in_place(partial, folder)


def _drop(folder: Path) -> None:
    """Remove a folder, which is there whole or not at all, whenever this is cut short."""
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
