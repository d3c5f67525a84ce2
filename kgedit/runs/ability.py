"""General ability of a run's model in each of its states, in ability.jsonl and ability_tasks.jsonl.

The former has the loss on a text, the latter the results of tasks of lm-evaluation-harness.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from kgedit.checksums import decoding
from kgedit.errors import SpecError
from kgedit.files import append_lines, cut_half_line, read_lines
from kgedit.llm.ability import measure_tasks, text_loss
from kgedit.llm.language_model import LanguageModel
from kgedit.records.runs import AbilityMeasurement, ModelState, RunSpec, TaskMeasurement

PROSE = "prose"
"""The built-in text."""

HIGHEST_LOSS = 1e4
"""Replaces the loss of a destroyed model if it is NaN or higher than this."""

_PROSE_FILE = Path(__file__).parents[1] / "data" / "prose.txt"


def read_ability_text(name: str) -> str:
    """Read the text named by a spec's `ability`.

    Raises:
        SpecError: if it is a file that cannot be read as UTF-8.
    """
    path = _PROSE_FILE if name == PROSE else Path(name)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([f"ability: {path} cannot be read as text: {error}"]) from error


_MEASURE_AGAIN = "Remove it, and give the run's command again: kgedit run-edit"


class AbilityMeter:
    """Measures each model state once; a resumed run measures what is missing.

    Args:
        folder: Folder of the run.
        model: Model in its current state.
        name: `ability` of the spec.

    Raises:
        SpecError: if the text cannot be read.
    """

    def __init__(self, folder: Path, model: LanguageModel, name: str) -> None:
        self._path = folder / "ability.jsonl"
        self._model = model
        self._text = read_ability_text(name)
        self._name = name if name == PROSE else Path(name).name
        self._sha256 = hashlib.sha256(self._text.encode()).hexdigest()
        cut_half_line(self._path)
        with decoding(self._path, fix=_MEASURE_AGAIN):
            done = [msgspec.json.decode(line, type=AbilityMeasurement) for line in read_lines(self._path)]
        self._done = {(item.model_state, item.case_id) for item in done if item.text_sha256 == self._sha256}

    def measure(self, state: ModelState, *, case_id: str | None = None) -> None:
        """Measure the model in its current state, unless already done.

        Args:
            case_id: With the protocol "single", the case whose edit it has received.
        """
        if (state, case_id) in self._done:
            return
        started = time.perf_counter()
        found = text_loss(self._model, self._text)
        measurement = AbilityMeasurement(
            model_state=state,
            case_id=case_id,
            text=self._name,
            text_sha256=self._sha256,
            tokens=found.tokens,
            text_bytes=len(self._text.encode()),
            loss=round(found.loss, 6) if found.loss < HIGHEST_LOSS else HIGHEST_LOSS,
            seconds=round(time.perf_counter() - started, 6),
        )
        append_lines(self._path, [msgspec.json.encode(measurement).decode()])
        self._done.add((state, case_id))


class TaskMeter:
    """Evaluates tasks once per model state; a resumed run evaluates what is missing.

    Args:
        folder: Folder of the run.
        model: Model in its current state.
        tasks: `ability_tasks` of the spec.
        most: Maximum number of documents per task; None means all.
    """

    def __init__(self, folder: Path, model: LanguageModel, tasks: Sequence[str], *, most: int | None) -> None:
        self._path = folder / "ability_tasks.jsonl"
        self._model = model
        self._tasks = tasks
        self._most = most
        cut_half_line(self._path)
        with decoding(self._path, fix=_MEASURE_AGAIN):
            done = [msgspec.json.decode(line, type=TaskMeasurement) for line in read_lines(self._path)]
        self._done = {(item.model_state, item.case_id) for item in done}

    def measure(self, state: ModelState, *, case_id: str | None = None) -> None:
        """Measure the model in its current state, unless already done.

        Args:
            case_id: With the protocol "single", the case whose edit it has received.

        Raises:
            MissingExtraError: without lm-eval.
            ModelError: if a task is unknown or its data is not available.
        """
        if (state, case_id) in self._done:
            return
        found = [
            TaskMeasurement(model_state=state, case_id=case_id, **asdict(value))
            for value in measure_tasks(self._model, self._tasks, most=self._most)
        ]
        # All values of a state are written at once, so that a killed run has all of them or none.
        append_lines(self._path, [msgspec.json.encode(item).decode() for item in found])
        self._done.add((state, case_id))


Meter = AbilityMeter | TaskMeter


def meters_of(folder: Path, model: LanguageModel, spec: RunSpec) -> tuple[Meter, ...]:
    """Meters for everything that a spec measures."""
    found: list[Meter] = []
    if spec.ability:
        found.append(AbilityMeter(folder, model, spec.ability))
    if spec.ability_tasks:
        found.append(TaskMeter(folder, model, spec.ability_tasks, most=spec.ability_limit))
    return tuple(found)
