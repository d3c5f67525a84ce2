"""Runs of `up` in a second process, beside those of its first model: one small model leaves most cores idle.

The process imports PyTorch and reads its models while the changes are still being found. If it ends early, the caller
carries out the runs that are left, and meets the same error.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgedit.errors import KgeditError
from kgedit.machine import usable_cores
from kgedit.progress import Advance, Steps
from kgedit.verbs.up_inputs import SMOLLM2, TINY, UpInputs
from kgedit.verbs.up_steps import Step, steps_of

_BESIDE_EACH_OTHER = {TINY, SMOLLM2}
"""Models that fit into memory together; a model of unknown size might not."""


@dataclass(slots=True)
class Ahead:
    """The second process.

    Attributes:
        numbers: Numbers of the steps that it carries out, from 0.
        started: Whether the timestep exists and the runs were started.
    """

    numbers: Sequence[int]
    _process: subprocess.Popen[bytes]
    _received: queue.SimpleQueue[list[Any]] = field(default_factory=queue.SimpleQueue)
    started: bool = False

    def __post_init__(self) -> None:
        threading.Thread(target=self._receive, daemon=True).start()

    def start(self) -> None:
        """Start the runs: the timestep exists."""
        if not self.started:
            self.started = True
            self._send(b"\n")

    def wait(self, number: int, progress: Steps) -> float | None:
        """Wait for the end of a step, and show its progress.

        Returns:
            The step's seconds of wall time; None if the process ended before the step did.
        """
        advances: dict[int, Advance] = {}
        while message := self._received.get():
            match message:
                case ["step", index, title, total, unit]:
                    advances[index] = progress(title, total, unit)
                case ["advance", index, done, counted]:
                    advances[index](done, counted)
                case ["end", ended, seconds] if ended == number:
                    return float(seconds)
        self._received.put([])  # for the next step
        return None

    def _send(self, content: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which `wait` returns
            self._process.stdin.write(content)
            self._process.stdin.flush()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # it was killed while it wrote
            for line in self._process.stdout:
                self._received.put(json.loads(line))
        self._received.put([])


@contextlib.contextmanager
def run_ahead(inputs: UpInputs, steps: Sequence[Step], *, overwrite: bool, track: str | None) -> Iterator[Ahead | None]:
    """Open the second process, and end it with the context; None if all runs are better carried out in this one.

    While both have runs, each computes with half of the cores.
    """
    numbers = _numbers(inputs, steps)
    if not numbers:
        yield None
        return
    from kgedit.llm.devices import half_of_the_threads

    with half_of_the_threads() as threads:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # this process repeats a step that failed
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        ahead = Ahead(numbers, process)
        ahead._send(pickle.dumps((inputs, numbers, overwrite, track)))
        try:
            yield ahead
        finally:
            process.kill()
            process.communicate()


def _numbers(inputs: UpInputs, steps: Sequence[Step]) -> list[int]:
    """Steps of the second process: pending runs of all models but the first; none if nothing is left for the first."""
    from kgedit.llm.devices import resolve_device

    runs = {number: step.run for number, step in enumerate(steps) if step.kind == "run"}
    if usable_cores() < 2 or not {run["model"] for run in runs.values()} <= _BESIDE_EACH_OTHER:
        return []
    if any(resolve_device(run.get("device") or "auto") != "cpu" or run.get("backend") for run in runs.values()):
        return []
    pending = [number for number in runs if not steps[number].is_done()]
    numbers = [number for number in pending if runs[number]["model"] != inputs.runs[0]["model"]]
    return numbers if len(numbers) < len(pending) else []


def _serve() -> None:
    """The second process: read what to do, get ready, and carry out the runs when the caller says so."""
    # Nothing but messages may reach the caller; what is printed is dropped with the errors.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        inputs, numbers, overwrite, track = pickle.load(sys.stdin.buffer)
        steps = steps_of(inputs, overwrite=overwrite, track=track)
        _get_ready([steps[number] for number in numbers])
        if not sys.stdin.buffer.read(1):
            return
        threading.Thread(target=_end_with_the_caller, daemon=True).start()

        def send(*message: object) -> None:
            out.write(json.dumps(message) + "\n")
            out.flush()

        begun = 0

        def add(title: str, total: int, unit: str) -> Advance:
            nonlocal begun
            begun += 1
            send("step", index := begun, title, total, unit)
            return lambda done, counted: send("advance", index, done, counted)

        for number in numbers:
            since = time.monotonic()
            steps[number].carry_out(add)
            send("end", number, time.monotonic() - since)


def _get_ready(steps: Sequence[Step]) -> None:
    """Import PyTorch, and load each model that needs no timestep."""
    from kgedit.llm.loading import load_model

    for model in {str(step.run["model"]) for step in steps} - {TINY}:
        with contextlib.suppress(KgeditError):  # the run reports it
            load_model(model, device="cpu", dtype="float32")


def _end_with_the_caller() -> None:
    """Exit when the caller does: its end of the pipe is then closed."""
    while os.read(0, 1):  # sys.stdin's lock would be held while the interpreter shuts down
        pass
    os._exit(1)


if __name__ == "__main__":
    _serve()
