"""A run on disk: spec.yaml, environment.json, prepared.json, cases.parquet, answers.jsonl, edits.jsonl, checkpoints/.

Answers and edit costs are appended line by line. A killed run resumes from its newest checkpoint, and its files end up
the same as those of an uninterrupted run. environment.json records versions, machine, model revision, hashes of
timesteps and contexts, and the git commit.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from kgedit.checksums import decoding
from kgedit.editing.editor import Editor
from kgedit.errors import SpecError
from kgedit.files import append_lines, cut_half_line, exclusive_lock, read_lines, replace_file
from kgedit.llm.contexts import Context
from kgedit.llm.devices import device_name
from kgedit.records.runs import (
    Answer,
    EditCost,
    HashedInput,
    ModelRecord,
    ModelState,
    Preparation,
    RunEnvironment,
    RunSpec,
)
from kgedit.runs.checkpoints import Checkpoints
from kgedit.runs.run_files import forget_run_checksums, read_edit_costs, read_environment
from kgedit.runs.spec import write_spec
from kgedit.timesteps.edit_files import Edits
from kgedit.yaml_files import load_yaml


class AnswerKey(NamedTuple):
    """Key that identifies an answer within a run; the fields are those of an Answer."""

    model_state: ModelState
    timestep: str
    case_id: str
    axis: str
    question: str
    preset: str


class _AnswerLine(msgspec.Struct):
    """Fields of a line of answers.jsonl that form its key, in the key's order."""

    model_state: ModelState
    timestep: str
    case_id: str
    axis: str
    question: str
    preset: str


_LOCK = ".lock"

_START_AGAIN = "Start the run again: kgedit run-edit with --overwrite"

_SAME = ("model", "timesteps", "contexts", "trained_in")
"""Parts of environment.json that must not change when a run is resumed, in addition to the settings."""


class RunFolder:
    """The files of one run; created by `open_run`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / "checkpoints")
        for name in ("answers.jsonl", "edits.jsonl"):
            cut_half_line(path / name)

    def answers(self) -> list[Answer]:
        """All answers so far, in file order."""
        path = self.path / "answers.jsonl"
        with decoding(path, fix=_START_AGAIN):
            return [msgspec.json.decode(line, type=Answer) for line in read_lines(path)]

    def answer_keys(self) -> Iterator[AnswerKey]:
        """Keys of all answers so far, one by one."""
        path = self.path / "answers.jsonl"
        decoder = msgspec.json.Decoder(_AnswerLine)
        if path.is_file():
            with decoding(path, fix=_START_AGAIN), path.open("rb") as lines:
                for line in lines:
                    yield AnswerKey(*msgspec.structs.astuple(decoder.decode(line)))

    def add_answers(self, answers: Sequence[Answer]) -> None:
        """Append a batch of answers."""
        append_lines(self.path / "answers.jsonl", [msgspec.json.encode(answer).decode() for answer in answers])

    def add_preparation(self, preparation: Preparation) -> None:
        """Write the preparation of the method; a resumed run keeps the existing one."""
        path = self.path / "prepared.json"
        if not path.is_file():
            replace_file(path, _as_json(preparation))

    def edits(self) -> list[EditCost]:
        """All edits so far, in file order."""
        return list(self.edit_costs())

    def edit_costs(self) -> Iterator[EditCost]:
        """All edits so far, one by one."""
        return read_edit_costs(self.path)

    def count_edits(self) -> int:
        """Number of edits so far."""
        return sum(1 for _ in self.edit_costs())

    def add_edit(self, cost: EditCost) -> None:
        """Append one edit."""
        append_lines(self.path / "edits.jsonl", [msgspec.json.encode(cost).decode()])

    def truncate_edits(self, lines: int) -> None:
        """Remove edits that are not in any checkpoint; they will be applied again."""
        # For appending, which also creates the file: a run that was killed early has none.
        with (self.path / "edits.jsonl").open("ab+") as file:
            file.seek(0)
            file.truncate(sum(len(line) for line in islice(file, lines)))


@contextmanager
def open_run(
    path: Path, spec: RunSpec, environment: RunEnvironment, *, overwrite: bool
) -> Generator[RunFolder, None, None]:
    """Create a run's folder, or open it to resume; it is locked against other processes until the context ends.

    Raises:
        SpecError: if the folder contains another run or other content, or if another process is using it.
    """
    refuse_other_content(path)
    is_run = (path / "spec.yaml").is_file()
    path.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(path / _LOCK, when_taken=lambda: _in_use(path)):
        if is_run and overwrite:
            _empty(path)
        elif is_run:
            _compare(path, spec, environment)
        forget_run_checksums(path)
        replace_file(path / "spec.yaml", write_spec(spec))
        if not (path / "environment.json").is_file():
            replace_file(path / "environment.json", _as_json(environment))
        yield RunFolder(path)


def refuse_other_content(path: Path) -> None:
    """Check that a folder is missing, empty, or a run.

    Raises:
        SpecError: if it has other content.
    """
    if path.exists() and not path.is_dir():
        raise SpecError([f"{path} is a file; give another folder (--out)"], of="The run cannot start")
    is_run = (path / "spec.yaml").is_file()
    if path.is_dir() and not is_run and any(found.name != _LOCK for found in path.iterdir()):
        raise SpecError(
            [f"{path} is not empty and contains no run (no spec.yaml); give another --out"], of="The run cannot start"
        )


def _in_use(path: Path) -> None:
    raise SpecError([f"another process is using the run {path}; wait for it, or give --out"], of="The run cannot start")


def _empty(path: Path) -> None:
    # The lock file stays: if it were created again, a second process could hold it.
    for found in path.iterdir():
        if found.is_dir():
            shutil.rmtree(found)
        elif found.name != _LOCK:
            found.unlink()


def _compare(path: Path, spec: RunSpec, environment: RunEnvironment) -> None:
    here = load_yaml(write_spec(spec))
    with decoding(path / "spec.yaml", fix=_START_AGAIN):
        # Runs whose spec records no order use the file's order.
        there = {"order": "file"} | load_yaml((path / "spec.yaml").read_bytes().decode())
        differing = [
            f"{name} is {there.get(name)!r} there and {here.get(name)!r} here"
            for name in sorted(there.keys() | here.keys())
            if there.get(name) != here.get(name)
        ]
    before = read_environment(path) or environment
    differing += [
        f"{name} has changed since the run began ({getattr(before, name)!r} there, {getattr(environment, name)!r} here)"
        for name in _SAME
        if getattr(before, name) != getattr(environment, name)
    ]
    differing += [
        f"settings.{name} is {before.settings.get(name)!r} there and {environment.settings.get(name)!r} here, resolved"
        for name in sorted(before.settings.keys() | environment.settings.keys())
        if before.settings.get(name) != environment.settings.get(name)
    ]
    if differing:
        differing.append("give another --out, or --overwrite to start over")
        raise SpecError([f"{path} contains another run", *differing], of="The run cannot start")


def _as_json(record: Preparation | RunEnvironment) -> str:
    return msgspec.json.format(msgspec.json.encode(record), indent=1).decode() + "\n"


_BYTES = 16
"""Length of a digest: two of a billion keys are equal with a probability of about 1e-21."""

_TYPE = np.dtype((np.bytes_, _BYTES))


class WrittenKeys:
    """A set of keys that stores only sorted hashes of 128 bits.

    Args:
        keys: Tuples of JSON values; iterated once.
    """

    def __init__(self, keys: Iterable[tuple[object, ...]]) -> None:
        digests = bytearray()
        for key in keys:
            digests += _digest(key)
        self._sorted = np.sort(np.frombuffer(bytes(digests), dtype=_TYPE))

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def nbytes(self) -> int:
        """Number of bytes used by all keys."""
        return self._sorted.nbytes

    def __contains__(self, key: tuple[object, ...]) -> bool:
        if not len(self._sorted):
            return False
        digest = np.array([_digest(key)], dtype=_TYPE)
        index = int(np.searchsorted(self._sorted, digest)[0])
        return index < len(self._sorted) and bool(self._sorted[index] == digest[0])


def _digest(key: tuple[object, ...]) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(key), digest_size=_BYTES).digest()


_PACKAGES = (
    "kgedit",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "safetensors",
    "sentence-transformers",
    "faiss-cpu",
    "openai",
    "vllm",
    "numpy",
)


def describe_environment(
    spec: RunSpec, editor: Editor[Any], *, timesteps: Sequence[Edits], contexts: Mapping[str, Context]
) -> RunEnvironment:
    """Collect the content of environment.json; call it before the first edit.

    Args:
        contexts: Contexts by preset.
    """
    model = editor.model
    return RunEnvironment(
        packages={name: _version(name) for name in _PACKAGES},
        python=platform.python_version(),
        platform=platform.platform(),
        device=device_name(spec.device),
        threads=torch.get_num_threads(),
        git_commit=_git_commit(),
        seed=spec.seed,
        model=ModelRecord(
            name=model.name,
            class_name=type(model.module).__name__,
            revision=model.revision,
            fingerprint=model.fingerprint,
            parameters=model.module.num_parameters(),
        ),
        source=editor.capabilities.source,
        settings=editor.settings.model_dump(),
        timesteps=tuple(
            HashedInput(name=step.name, sha256=step.sha256, unused_fields=step.unused_fields) for step in timesteps
        ),
        contexts={preset: context.sha256 for preset, context in contexts.items()},
        trained_in=tuple(HashedInput(name=one.name, sha256=one.sha256) for one in editor.contexts),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """Commit of the checkout that kgedit runs from; None for an installed wheel or without git."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
