"""A run on disk: spec.yaml, environment.json, prepared.json, answers.jsonl, edits.jsonl, checkpoints/, scores.json.

Answers and edit costs are appended line by line. A checkpoint is a folder that appears when it is whole; the newest
counts; beside it stands how far a long call of a method has come since. A run that was killed goes on from there, and
its files end up as if it had not been.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import yaml
from safetensors.torch import load_file, save_file

from kgedit.editing.editor import EditorState
from kgedit.errors import SpecError
from kgedit.llm.jsonl import append_lines, cut_half_line, read_lines
from kgedit.records.runs import Answer, EditCost, Preparation, RunSpec
from kgedit.runs.spec import write_spec


class AnswerKey(NamedTuple):
    """What makes an answer the only one of its kind in a run; the fields are those of an Answer."""

    after: str | None
    edits: int | None
    timestep: str
    case_id: str
    axis: str
    question: str
    preset: str


_LOCK = ".lock"

_SAME = ("model", "timesteps", "contexts")
"""Parts of environment.json that must not change between the sittings of a run."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a run stood.

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
class Halfway:
    """Where one call of a method stood.

    Attributes:
        timestep: Name of the timestep being learned.
        first: Cases of it that were applied before the call.
        cases: Cases of the call.
        seconds: Spent on the call so far.
        cpu_seconds: Likewise, of the processor.
        state: What the method can go on from.
    """

    timestep: str
    first: int
    cases: int
    seconds: float
    cpu_seconds: float
    state: EditorState


Kept = TypeVar("Kept", Checkpoint, Halfway)


def key_of(answer: Answer) -> AnswerKey:
    """The key of an answer."""
    return AnswerKey(
        answer.after,
        answer.edits,
        answer.timestep,
        answer.case_id,
        answer.axis,
        answer.question,
        answer.preset,
    )


class RunFolder:
    """The files of one run; made by `open_run`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("answers.jsonl", "edits.jsonl"):
            cut_half_line(path / name)

    def answers(self) -> list[Answer]:
        """Every answer given so far, in file order."""
        return [msgspec.json.decode(line, type=Answer) for line in read_lines(self.path / "answers.jsonl")]

    def add_answers(self, answers: Sequence[Answer]) -> None:
        """Append a batch of answers."""
        append_lines(self.path / "answers.jsonl", [msgspec.json.encode(answer).decode() for answer in answers])

    def add_preparation(self, preparation: Preparation) -> None:
        """Write down what came before the first edit; a run that goes on keeps what its first sitting wrote."""
        path = self.path / "prepared.json"
        if not path.is_file():
            write_whole(path, msgspec.json.format(msgspec.json.encode(preparation), indent=1).decode() + "\n")

    def edits(self) -> list[EditCost]:
        """Every edit made so far, in file order."""
        return [msgspec.json.decode(line, type=EditCost) for line in read_lines(self.path / "edits.jsonl")]

    def add_edit(self, cost: EditCost) -> None:
        """Append one edit."""
        append_lines(self.path / "edits.jsonl", [msgspec.json.encode(cost).decode()])

    def keep_edits(self, lines: int) -> None:
        """Forget edits that no checkpoint holds: they will be made again."""
        kept = read_lines(self.path / "edits.jsonl")[:lines]
        write_whole(self.path / "edits.jsonl", "".join(f"{line}\n" for line in kept))

    def checkpoint(self) -> Checkpoint | None:
        """The newest whole checkpoint."""
        found = self._checkpoints()
        return _read(found[-1], Checkpoint) if found else None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint aside, rename it, and drop what was before it."""
        older = self._checkpoints()
        number = int(older[-1].name) + 1 if older else 1
        _write(self.path / "checkpoints" / f"{number:06d}", checkpoint)
        for path in (*older, self._halfway):
            _drop(path)

    def halfway(self, timestep: str, first: int, cases: int) -> Halfway | None:
        """Where the call with these cases stood when an earlier sitting ended."""
        found = _read(self._halfway, Halfway) if self._halfway.is_dir() else None
        same = found is not None and (found.timestep, found.first, found.cases) == (timestep, first, cases)
        return found if same else None

    def save_halfway(self, halfway: Halfway) -> None:
        """Write where a call stands aside, and put it in the place of what was there before."""
        _write(self._halfway, halfway)

    @property
    def _halfway(self) -> Path:
        return self.path / "checkpoints" / "halfway"

    def _checkpoints(self) -> list[Path]:
        return sorted(path for path in (self.path / "checkpoints").glob("*") if path.name.isdigit())


def _write(folder: Path, found: Checkpoint | Halfway) -> None:
    """Write aside, and rename over what was there."""
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    record = {item.name: getattr(found, item.name) for item in fields(found) if item.name != "state"}
    save_file(
        {name: tensor.contiguous().cpu() for name, tensor in found.state.tensors.items()}, partial / "state.safetensors"
    )
    whole = json.dumps({**record, "record": found.state.record}, ensure_ascii=False, indent=1)
    write_whole(partial / "state.json", whole)
    _drop(folder)
    partial.rename(folder)


def _drop(folder: Path) -> None:
    """Remove a folder, which is there whole or not at all, whenever this is cut short."""
    aside = folder.with_suffix(".dropped")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.is_dir():
        folder.rename(aside)
        shutil.rmtree(aside)


def _read(folder: Path, kind: type[Kept]) -> Kept:
    record = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    state = EditorState(load_file(folder / "state.safetensors"), record.pop("record"))
    return kind(**record, state=state)


@contextmanager
def open_run(
    path: Path, spec: RunSpec, environment: Mapping[str, Any], *, overwrite: bool
) -> Generator[RunFolder, None, None]:
    """Start a run's folder, or open it to go on; until the context ends it is closed to other processes.

    Raises:
        SpecError: if the folder holds another run, or something that is no run, or if another process is at work on it.
    """
    is_run = (path / "spec.yaml").is_file()
    if path.is_dir() and not is_run and any(found.name != _LOCK for found in path.iterdir()):
        raise SpecError([f"{path} is not empty and holds no run (no spec.yaml); give another --out"])
    path.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        if is_run and overwrite:
            _empty(path)
        elif is_run:
            _compare(path, spec, environment)
        write_whole(path / "spec.yaml", write_spec(spec))
        if not (path / "environment.json").is_file():
            write_whole(path / "environment.json", json.dumps(environment, indent=1, ensure_ascii=False) + "\n")
        yield RunFolder(path)


@contextmanager
def _alone(path: Path) -> Generator[None, None, None]:
    """Hold a run's folder; the lock dies with the process, so a kill leaves nothing to clean up."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield
        return
    with (path / _LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SpecError([f"another process is at work on the run {path}; wait for it, or give --out"]) from error
        yield


def _empty(path: Path) -> None:
    # The lock stays: a file made anew in its place would let a second holder in.
    for found in path.iterdir():
        if found.is_dir():
            shutil.rmtree(found)
        elif found.name != _LOCK:
            found.unlink()


def _compare(path: Path, spec: RunSpec, environment: Mapping[str, Any]) -> None:
    there = yaml.safe_load((path / "spec.yaml").read_text(encoding="utf-8"))
    here = yaml.safe_load(write_spec(spec))
    differing = [
        f"{name} is {there.get(name)!r} there and {here.get(name)!r} here"
        for name in sorted(there.keys() | here.keys())
        if there.get(name) != here.get(name)
    ]
    recorded = path / "environment.json"
    before = json.loads(recorded.read_text(encoding="utf-8")) if recorded.is_file() else environment
    differing += [
        f"{name} has changed since the run began ({before.get(name)!r} there, {environment[name]!r} here)"
        for name in _SAME
        if before.get(name) != environment[name]
    ]
    if differing:
        differing.append("give another --out, or --overwrite to begin afresh")
        raise SpecError([f"{path} holds another run", *differing])


def write_whole(path: Path, text: str) -> None:
    """Write a file aside and rename it into place."""
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
