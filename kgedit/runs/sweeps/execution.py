"""Executes a sweep: finished runs are skipped, interrupted ones resumed; a failed run does not stop the others.

Its work is counted before it runs: edits, and questions to the unedited and the edited model.
"""

from __future__ import annotations

import fnmatch
import gc
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from kgedit.editing.hparams.settings import unknown
from kgedit.errors import KgeditError, SpecError, TimestepError
from kgedit.llm.devices import forget_peak_memory
from kgedit.llm.presets import same_text
from kgedit.progress import Listener
from kgedit.records.cases import Case
from kgedit.records.runs import Preset, RunSpec
from kgedit.runs.evaluator import probes_under
from kgedit.runs.run_files import read_environment, read_scores, read_spec
from kgedit.runs.runner import run
from kgedit.runs.scoring import write_scores
from kgedit.runs.selection import choose_cases, choose_evaluated
from kgedit.runs.spec import as_recorded
from kgedit.runs.sweeps.planning import PlannedRun, former_pattern, hashed_name
from kgedit.runs.tracking import Tracking
from kgedit.timesteps.edit_files import Edits, open_edits

LOG = logging.getLogger("kgedit.runs")


@dataclass(frozen=True, slots=True)
class RunCount:
    """Work of one run; an upper bound with `only_failed`.

    Attributes:
        edits: Number of cases to edit.
        unedited: Number of questions to the unedited model.
        new: Number of these that no earlier run of the sweep asks; the others are in the answer cache.
        edited: Number of questions to the edited model, over all its states.
    """

    edits: int
    unedited: int
    new: int
    edited: int


class SweepCounter:
    """Counts the work of runs; reads every file of edits once."""

    def __init__(self) -> None:
        self._open = cache(open_edits)
        self._asked: set[bytes] = set()

    def sha256s(self, spec: RunSpec) -> tuple[str, ...]:
        """SHA-256 of each of a run's edits files.

        Raises:
            TimestepError: if they cannot be read.
        """
        return tuple(edits.sha256 for edits in self._edits(spec))

    def edits_and_questions(self, spec: RunSpec) -> tuple[int, int]:
        """Number of cases that a run edits, and of questions in each model state.

        Raises:
            TimestepError: if the edits cannot be read, or no case is left.
            SpecError: if two timesteps have the same name, or the file of cases cannot be read.
        """
        cases = self._cases(spec)
        every = [case for own in cases.values() for case in own]
        asked = choose_evaluated(cases, spec)(every)
        return len(every), sum(_probes(presets[0], asked) for presets in same_text(spec.presets))

    def count(self, run: PlannedRun) -> RunCount:
        """Count the work of a run, after that of all runs counted before.

        Raises:
            TimestepError, SpecError: see `edits_and_questions`.
        """
        spec, cases = run.spec, self._cases(run.spec)
        every = [case for own in cases.values() for case in own]
        asked = choose_evaluated(cases, spec)(every)
        texts = [presets[0] for presets in same_text(spec.presets)]
        keys = {key for preset in texts for key in _questions(spec, preset, asked)}
        new = len(keys - self._asked)
        self._asked |= keys
        return RunCount(
            edits=len(every),
            unedited=sum(_probes(preset, asked) for preset in texts),
            new=new,
            edited=sum(_asked_after(spec, preset, cases) for preset in texts),
        )

    def _cases(self, spec: RunSpec) -> dict[str, list[Case]]:
        return choose_cases(self._edits(spec), spec)[0]

    def _edits(self, spec: RunSpec) -> list[Edits]:
        return [self._open(Path(path)) for path in spec.timesteps]


def _questions(spec: RunSpec, preset: Preset, cases: Sequence[Case]) -> Iterator[bytes]:
    """Hashes that identify questions to an unedited model; demonstrations come from the timesteps."""
    shown = spec.timesteps if preset.shots else ()
    asked_in: tuple[str, ...] = (
        spec.model,
        spec.device,
        spec.dtype,
        preset.context,
        preset.generation,
        preset.truncation,
    )
    limits = (preset.max_new_tokens, preset.stop_entropy, preset.thinking_tokens)
    asked_in += tuple(map(str, (*limits, preset.shots, preset.shots_seed)))
    asked_in += shown
    for case in cases:
        for probe in probes_under(case, preset):
            cloze = case.cloze if preset.wording == "cloze" and probe.axis == "update" else ""
            text = "\0".join((*asked_in, cloze or probe.question, probe.answers[0]))
            yield hashlib.blake2b(text.encode(), digest_size=16).digest()


def _asked_after(spec: RunSpec, preset: Preset, cases: Mapping[str, list[Case]]) -> int:
    """Number of probes evaluated in edited states under one preset."""
    if spec.protocol == "single":
        return sum(_probes(preset, own) for own in cases.values())
    asked, total, past = choose_evaluated(cases, spec), 0, 0
    for own in cases.values():
        earlier = past if spec.evaluate_earlier else 0
        total += earlier + _probes(preset, asked(own))
        total += sum(earlier + _probes(preset, asked(own[:done])) for done in stops(spec, len(own)))
        past += _probes(preset, asked(own))
    return total


def stops(spec: RunSpec, cases: int) -> Iterator[int]:
    """Numbers of edits of a timestep after which all edits so far are evaluated, as in the runner."""
    size, every = spec.batch_size or cases, spec.evaluate_every
    if every:
        for done in range(0, cases, size):
            if done // every > max(0, done - size) // every:
                yield done


def _probes(preset: Preset, cases: Sequence[Case]) -> int:
    return sum(len(probes_under(case, preset)) for case in cases)


RunState = Literal["new", "begun", "finished"]

Announce = Callable[[PlannedRun, int, int], Listener | None]
"""Called with each run that begins, its number from 1, and the total; returns the run's progress callback."""


@dataclass(frozen=True, slots=True)
class SweptRun:
    """One run of a sweep, before or after its execution.

    Attributes:
        name: Name of its folder.
        folder: Path of its folder, which may not exist yet.
        spec: Resolved spec.
        state: State of the folder: missing, interrupted, or finished.
        count: Work of the run.
        error: Reason why it failed; "" if it succeeded or has not been tried.
    """

    name: str
    folder: Path
    spec: RunSpec
    state: RunState
    count: RunCount
    error: str = ""


def under_former_names(runs: Sequence[PlannedRun], out: Path) -> tuple[PlannedRun, ...]:
    """The runs, with the name of an earlier version for those that are in a folder of that name.

    Args:
        runs: All runs of a sweep.
        out: Folder of the sweep.
    """
    former = {run.name: name for run in runs if (name := _former_folder(run, out)) is not None}
    names = {run.name: former.get(run.name, run.name) for run in runs}
    taken = set(former.values())
    # A run that is called now what another one was called gets a hash.
    names |= {run.name: hashed_name(run.name, run.spec) for run in runs if run.name in taken - former.keys()}
    return tuple(replace(run, name=names[run.name]) for run in runs)


def _former_folder(run: PlannedRun, out: Path) -> str | None:
    """Name of the folder in which an earlier version stored a run; None if there is none."""
    if not run.former_name or (out / run.name / "spec.yaml").is_file():
        return None
    for folder in (out / run.former_name, *sorted(out.glob(former_pattern(run)))):
        with suppress(TimestepError):
            if (folder / "spec.yaml").is_file() and as_recorded(read_spec(folder)) == as_recorded(run.spec):
                return folder.name
    return None


def choose_runs(runs: Sequence[PlannedRun], only: Sequence[str]) -> list[PlannedRun]:
    """Select runs whose names match one of the patterns, with * and ?; all without a pattern.

    Raises:
        SpecError: if a pattern matches none.
    """
    names = [run.name for run in runs]
    problems = [unknown("run", pattern, names) for pattern in only if not fnmatch.filter(names, pattern)]
    if problems:
        raise SpecError(problems)
    return [run for run in runs if not only or any(fnmatch.fnmatchcase(run.name, pattern) for pattern in only)]


def in_order_of_work(runs: Sequence[PlannedRun], counter: SweepCounter) -> list[PlannedRun]:
    """Order runs so that those on the same model are consecutive, the one with the most questions first.

    Answers of the unedited model for the largest run are then in the cache for runs with a subset of its questions.
    """
    models = list(dict.fromkeys((run.spec.model, run.spec.device, run.spec.dtype) for run in runs))

    def key(planned: PlannedRun) -> tuple[int, int]:
        spec = planned.spec
        return models.index((spec.model, spec.device, spec.dtype)), -counter.edits_and_questions(spec)[1]

    return sorted(runs, key=key)


def inspect_runs(
    runs: Sequence[PlannedRun], out: Path, counter: SweepCounter, *, overwrite: bool = False
) -> list[SweptRun]:
    """Determine the state of each run, in the given order.

    Args:
        out: Folder of the sweep.
        overwrite: Whether to start every run over.

    Raises:
        SpecError: if folders contain other runs than these.
        TimestepError: if edits cannot be read.
    """
    problems = [] if overwrite else [problem for one in runs for problem in differences(one, out / one.name, counter)]
    if problems:
        raise SpecError([*problems, "give another --out, or --overwrite to start these runs over"])
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
    """Execute all unfinished runs in this process.

    Each run reloads its model: hashing every weight to verify that a method has undone all its edits would take as long
    (SmolLM2-135M, one CPU thread: 0.8 s to hash, 0.5 s to load).

    Args:
        runs: Runs in the order of work.
        overwrite: Whether to start every run over.
        announce: Called with each run that begins.
        track: Tracker for each run's metrics.

    Returns:
        The runs in their final states; a failed run has its error. The traceback of an unexpected one is logged.
    """
    done = []
    for number, one in enumerate(runs, start=1):
        if one.state == "finished":
            done.append(one)
            continue
        progress = announce(PlannedRun(one.name, one.spec), number, len(runs))
        gc.collect()  # free the last run's model before the next one is loaded
        forget_peak_memory(one.spec.device)
        tracking = Tracking(track)
        try:
            write_scores(run(one.spec, one.folder, overwrite=overwrite, tracking=tracking, progress=progress))
            tracking.finish()
        except KgeditError as error:
            done.append(_with(one, state=_state(one.folder), error=str(error)))
        except Exception as error:
            LOG.exception("The run %s failed.", one.name)
            done.append(_with(one, state=_state(one.folder), error=f"{type(error).__name__}: {error}"))
        else:
            done.append(_with(one, state="finished"))
    return done


def is_finished(folder: Path) -> bool:
    """Whether a folder contains a finished run."""
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
    """Differences of the folder's run from this one; empty if the folder contains none."""
    if not (folder / "spec.yaml").is_file():
        return []
    there, here = asdict(as_recorded(read_spec(folder))), asdict(as_recorded(planned.spec))
    found = [
        f"{folder} contains another run: {name} is {there[name]!r} there and {here[name]!r} here"
        for name in here
        if there[name] != here[name]
    ]
    environment = read_environment(folder)
    if not found and environment is not None:
        read = tuple(timestep.sha256 for timestep in environment.timesteps)
        if read != counter.sha256s(planned.spec):
            found.append(
                f"{folder} contains a run of edits that have changed since: {', '.join(planned.spec.timesteps)}"
            )
    return found
