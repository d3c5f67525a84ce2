"""A sweep carried out: finished runs are skipped, those that were cut resumed; one that fails stops no other."""

from __future__ import annotations

import fnmatch
import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from kgedit.errors import KgeditError, SpecError, TimestepError
from kgedit.hparams.settings import unknown
from kgedit.llm.devices import forget_peak_memory
from kgedit.records.runs import RunSpec
from kgedit.runs.run_files import read_environment, read_scores, read_spec
from kgedit.runs.runner import RunProgress, run
from kgedit.runs.scoring import write_scores
from kgedit.runs.spec import as_recorded
from kgedit.runs.sweeps.counting import RunCount, SweepCounter
from kgedit.runs.sweeps.planning import PlannedRun
from kgedit.runs.tracking import Tracking

RunState = Literal["new", "begun", "finished"]

Announce = Callable[[PlannedRun, int, int], RunProgress | None]
"""Called with each run that begins, its number from 1, and how many there are; gives the run's progress callback."""


@dataclass(frozen=True, slots=True)
class SweptRun:
    """One run of a sweep, before or after it was carried out.

    Attributes:
        name: Of its folder.
        folder: Where it is, or will be.
        spec: Resolved.
        state: Of the folder: there is none yet, the run was cut, or it is whole.
        count: What it asks of the model.
        error: Why it could not be carried out; "" if it could, or has not been tried.
    """

    name: str
    folder: Path
    spec: RunSpec
    state: RunState
    count: RunCount
    error: str = ""


def choose_runs(runs: Sequence[PlannedRun], only: Sequence[str]) -> list[PlannedRun]:
    """The runs whose names fit one of the patterns, with * and ?; all without a pattern.

    Raises:
        SpecError: if a pattern fits none.
    """
    names = [run.name for run in runs]
    problems = [unknown("run", pattern, names) for pattern in only if not fnmatch.filter(names, pattern)]
    if problems:
        raise SpecError(problems)
    return [run for run in runs if not only or any(fnmatch.fnmatchcase(run.name, pattern) for pattern in only)]


def in_order_of_work(runs: Sequence[PlannedRun], counter: SweepCounter) -> list[PlannedRun]:
    """Runs on the same model after one another, the one with the most questions first.

    What the unedited model answers for the largest run is in the cache for those that ask a part of it.
    """
    models = list(dict.fromkeys((run.spec.model, run.spec.device, run.spec.dtype) for run in runs))

    def key(planned: PlannedRun) -> tuple[int, int]:
        spec = planned.spec
        return models.index((spec.model, spec.device, spec.dtype)), -counter.edits_and_questions(spec)[1]

    return sorted(runs, key=key)


def inspect_runs(
    runs: Sequence[PlannedRun], out: Path, counter: SweepCounter, *, overwrite: bool = False
) -> list[SweptRun]:
    """What is to be done, in the order given.

    Args:
        out: Folder of the sweep.
        overwrite: Whether every run begins afresh.

    Raises:
        SpecError: if folders hold other runs than these.
        TimestepError: if edits cannot be read.
    """
    problems = [] if overwrite else [problem for one in runs for problem in differences(one, out / one.name, counter)]
    if problems:
        raise SpecError([*problems, "give another --out, or --overwrite to begin these runs afresh"])
    return [
        SweptRun(
            name=one.name,
            folder=out / one.name,
            spec=one.spec,
            state="new" if overwrite else _state(out / one.name),
            count=counter.count(one),
        )
        for one in runs
    ]


def execute(
    runs: Sequence[SweptRun], *, overwrite: bool, announce: Announce, track: str | None = None
) -> list[SweptRun]:
    """Carry out what is not finished, all in this process.

    Each run loads its model anew: to hash every weight, so as to be sure that a method has undone all its edits, takes
    as long (SmolLM2-135M, one CPU thread: 0.8 s to hash, 0.5 s to load).

    Args:
        runs: In the order of work.
        overwrite: Whether every run begins afresh.
        announce: Told of each run.
        track: Tracker that each run's metrics are logged to.

    Returns:
        The runs as they are then; where a run failed, the error says why.
    """
    done = []
    for number, one in enumerate(runs, start=1):
        if one.state == "finished":
            done.append(one)
            continue
        progress = announce(PlannedRun(one.name, one.spec), number, len(runs))
        gc.collect()  # the last run's model, before the next one is loaded
        forget_peak_memory(one.spec.device)
        tracking = Tracking(track)
        try:
            write_scores(run(one.spec, one.folder, overwrite=overwrite, tracking=tracking, progress=progress))
            tracking.finish()
        except KgeditError as error:
            done.append(_with(one, state=_state(one.folder), error=str(error)))
        else:
            done.append(_with(one, state="finished"))
    return done


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a whole run."""
    return _state(folder) == "finished"


def _with(run: SweptRun, *, state: RunState, error: str = "") -> SweptRun:
    return SweptRun(run.name, run.folder, run.spec, state, run.count, error)


def _state(folder: Path) -> RunState:
    if not (folder / "spec.yaml").is_file():
        return "new"
    try:
        read_scores(folder)
    except TimestepError:
        return "begun"
    return "finished"


def differences(planned: PlannedRun, folder: Path, counter: SweepCounter) -> list[str]:
    """What the folder's run has otherwise than this one; nothing if the folder holds none."""
    if not (folder / "spec.yaml").is_file():
        return []
    there, here = asdict(as_recorded(read_spec(folder))), asdict(as_recorded(planned.spec))
    found = [
        f"{folder} holds another run: {name} is {there[name]!r} there and {here[name]!r} here"
        for name in here
        if there[name] != here[name]
    ]
    environment = read_environment(folder)
    if not found and environment is not None:
        read = tuple(timestep.sha256 for timestep in environment.timesteps)
        if read != counter.sha256s(planned.spec):
            found.append(f"{folder} holds a run of edits that have changed since: {', '.join(planned.spec.timesteps)}")
    return found
