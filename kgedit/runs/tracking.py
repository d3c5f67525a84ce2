"""Sends metrics of a run to a tracker (trackio, wandb) at checkpoints, after evaluations and at the end.

A tracker never stops a run: failures are counted, and the first one logs a warning.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import msgspec

from kgedit.files import replace_file
from kgedit.metrics.scores import score_answers
from kgedit.records.runs import UNEDITED, Answer, EditCost, ModelState, RunSpec
from kgedit.records.scores import RunScores, Score
from kgedit.registry import Registry
from kgedit.runs.run_files import read_answers, read_scores
from kgedit.runs.spec import as_recorded

PROJECT = "kgedit"
RECORD = "tracking.json"
"""File in a run's folder that records the tracker and its number of failures."""


class Tracker(Protocol):
    """Destination for the metrics of one run."""

    def log(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Log metrics.

        Args:
            metrics: Name -> value; a slash groups names.
            step: Number of edits that the model had received.
        """

    def finish(self) -> None:
        """Write all pending metrics."""


OpenTracker = Callable[[str, str, Mapping[str, Any]], Tracker]
"""Opens a run by project, name and settings; an existing one of this name is continued."""

TRACKERS: Registry[OpenTracker] = Registry(
    "tracker",
    {"trackio": "kgedit.runs.trackio_tracker:open_run", "wandb": "kgedit.runs.wandb_tracker:open_run"},
)


class Tracking:
    """Tracker of a run, opened when the first metrics are logged.

    Args:
        name: Name in TRACKERS; None disables tracking.

    Attributes:
        failures: Number of failed calls of the tracker.

    Raises:
        UnknownNameError: if the tracker does not exist.
        ModuleNotFoundError: if its package is not installed.
    """

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.failures = 0
        self._open = TRACKERS[name] if name else None
        self._tracker: Tracker | None = None
        self._begun: tuple[Path, RunSpec, Mapping[str, Any]] | None = None
        self._was_finished = False

    def begin(self, folder: Path, spec: RunSpec, settings: Mapping[str, Any]) -> None:
        """Called when a run begins or resumes.

        Args:
            folder: Folder of the run.
            spec: Spec of the run.
            settings: Resolved settings of the method.
        """
        self._begun = (folder, spec, settings)
        self._was_finished = (folder / "scores.json").is_file()

    def edited(self, costs: Sequence[EditCost], *, step: int) -> None:
        """Log the edits at a checkpoint.

        Args:
            costs: Costs of the edits since the previous checkpoint.
            step: Number of edits so far.
        """
        given = sum(len(cost.case_ids) for cost in costs)
        if given:
            losses = [cost.loss for cost in costs if cost.loss is not None]
            metrics = {
                "edit/seconds_per_edit": sum(cost.seconds for cost in costs) / given,
                "edit/failed": sum(len(cost.failures) for cost in costs),
                "edit/peak_memory_gib": max(cost.peak_memory_bytes for cost in costs) / 2**30,
            }
            self._log(metrics | ({"edit/loss": sum(losses) / len(losses)} if losses else {}), step=step)

    def evaluated(self, state: ModelState, *, step: int) -> None:
        """Log the scores of a fully evaluated state as preset/axis/metric."""
        if self._open and self._begun:
            folder, spec, _ = self._begun
            scores = score_answers(
                lambda: _of_state(read_answers(folder), state),
                spec.presets,
                answers_sha256="",
                train_context=spec.train_context,
                costs=(),
                preparation=None,
            ).scores
            self._log(dict(_named(scores, state)), step=step)

    def finish(self) -> None:
        """Log the final scores of the run and close the tracker."""
        if self._open is None or self._begun is None or (self._tracker is None and self._was_finished):
            return
        folder = self._begun[0]
        scores = read_scores(folder)
        self._log(_final(scores), step=scores.edits.edits)
        if self._tracker is not None:
            self._guard(self._tracker.finish)
        record = {"tracker": self.name, "project": PROJECT, "run": tracked_name(folder), "failures": self.failures}
        replace_file(folder / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")

    def _log(self, metrics: Mapping[str, float], *, step: int) -> None:
        if self._open is not None:
            self._guard(lambda: self._tracker_of_run().log(metrics, step=step))

    def _tracker_of_run(self) -> Tracker:
        if self._tracker is None and self._open and self._begun:
            folder, spec, settings = self._begun
            config = msgspec.to_builtins(
                {**asdict(as_recorded(spec)), "settings": dict(settings), "run_folder": str(folder)}
            )
            self._tracker = self._open(PROJECT, tracked_name(folder), config)
        if self._tracker is None:
            raise RuntimeError("a run is tracked before it began")
        return self._tracker

    def _guard(self, call: Callable[[], None]) -> None:
        try:
            with redirect_stdout(sys.stderr):  # stdout is for results, and trackers print to it
                call()
        except Exception as error:  # trackers may raise anything: no network, no login, a full disk
            self.failures += 1
            if self.failures == 1:
                warnings.warn(
                    f"{self.name} took no metrics ({type(error).__name__}: {error}). The run continues; {RECORD} in "
                    "its folder records how often that happened.",
                    stacklevel=2,
                )


def tracked_name(folder: Path) -> str:
    """Name of a run in a tracker: its folder's name and a suffix that separates folders of the same name."""
    return f"{folder.name}-{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:6]}"


def _of_state(answers: Iterable[Answer], state: ModelState) -> Iterator[Answer]:
    """Answers of one state, and those before any edit, with which some metrics compare."""
    return (answer for answer in answers if answer.model_state in (UNEDITED, state))


def _named(scores: Iterable[Score], state: ModelState) -> Iterator[tuple[str, float]]:
    """Means by name; keys of earlier timesteps are prefixed with the timestep's name."""
    for score in scores:
        if score.model_state == state and score.timestep is not None:
            earlier = "" if state.timestep in (None, score.timestep) else f"{score.timestep}/"
            yield f"{earlier}{score.preset}/{score.axis}/{score.metric}", score.mean


def _final(scores: RunScores) -> dict[str, float]:
    pooled = {
        f"{score.stage}/{score.preset}/{score.axis}/{score.metric}": score.mean
        for score in scores.scores
        if score.timestep is None
    }
    edits = scores.edits
    return pooled | {
        "total/edits": edits.edits,
        "total/failed": edits.failed,
        "total/edit_seconds": edits.seconds,
        "total/preparation_seconds": edits.preparation_seconds,
        "total/peak_memory_gib": edits.peak_memory_bytes / 2**30,
    }
