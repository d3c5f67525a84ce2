"""The whole pipeline in one call: from two states of Wikidata to an edited model, its scores and their page.

Complete results from the same inputs are not computed again, so an interrupted call resumes at any point.
"""

from __future__ import annotations

import contextvars
import datetime
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from kgedit.errors import TimestepError
from kgedit.progress import Steps
from kgedit.timesteps.profiles import PROFILES
from kgedit.verbs.home import Home, folder_of
from kgedit.verbs.live_progress import step_line
from kgedit.verbs.options import (
    Day,
    ExistingFile,
    OneOf,
    Verb,
    argument,
    as_many,
    flag,
    function_of,
    options,
    python_only,
)
from kgedit.verbs.shared_options import TRACKERS, InHome

if TYPE_CHECKING:
    from kgedit.verbs.up_inputs import UpInputs
    from kgedit.verbs.up_steps import Step


def _names(given: Any) -> tuple[str, ...]:
    """One name or several as a tuple; None means none."""
    return () if given is None else as_many(given)


if TYPE_CHECKING:
    OneOrSeveral = str | Iterable[str] | None
else:
    OneOrSeveral = Annotated[Sequence[str], BeforeValidator(_names)]


@dataclass(frozen=True, slots=True)
class StepTaken:
    """One step of a call.

    Attributes:
        number: Number of the step, from 1.
        of: Total number of steps.
        name: Name of the step.
        state: "begun" when it begins; then "made", or "kept" if its result already existed.
        seconds: Wall time that it took.
    """

    number: int
    of: int
    name: str
    state: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """Result of `up`.

    Attributes:
        sentences: What changed, what the models knew before, what they answer after, damage, and paths of the pages.
        page: Path of the page of results.
        changes_page: Path of the page of changes.
        timestep: Folder of the timestep.
        runs: Folders of the runs.
        numbers: Numbers in the sentences, and some answers in words, as in summary.json next to the page.
        note: Sentence on models or methods left out of the runs; "" if none were.
        steps: Steps, made or kept.
    """

    sentences: tuple[str, ...]
    page: Path
    changes_page: Path
    timestep: Path
    runs: tuple[Path, ...]
    numbers: Mapping[str, Any]
    note: str
    steps: tuple[StepTaken, ...]

    def __repr__(self) -> str:
        return f"<Outcome of {len(self.runs)} runs: {str(self.page)!r}>"

    def _repr_html_(self) -> str:
        """The sentences, for notebooks."""
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)


@options
class Up(InHome, Verb[Outcome]):
    """Run every step: from two dumps to a page of answers.

    Loads two states of Wikidata, edits language models with the changes, and evaluates them before and after. Without
    OLD and NEW the bundled sample is used. The steps are those of
    load-dump, export-timestep, run-edit and report. A step whose result exists and was created from the same inputs is
    skipped, so the same command resumes an interrupted one. Everything that would make a later step fail is checked
    before the first one. At the end a table compares the models, and a few answers are shown in words; the last line is
    the path of the page.
    """

    older: str | Path | datetime.date | None = argument(
        default=None, kw_only=False, metavar="[OLD", help="A dump, or the day of a loaded snapshot."
    )
    newer: str | Path | datetime.date | None = argument(
        default=None, kw_only=False, metavar="NEW]", help="A later dump or day."
    )
    older_date: Day | None = flag(
        "--from",
        default=None,
        complete="snapshot_dates",
        help="Day of OLD, if its name has none; without OLD, of a loaded snapshot.",
    )
    newer_date: Day | None = flag("--to", default=None, complete="snapshot_dates", help="Day of NEW, in the same way.")
    redirects: ExistingFile | None = flag(
        default=None, help="Tab-separated file of redirects for both dumps; see load-dump."
    )
    profile: Annotated[str, OneOf(PROFILES)] = flag(
        default=PROFILES[0], help="What counts as a change; see export-timestep."
    )
    model: OneOrSeveral = flag(
        default=(),
        group="Model",
        metavar="NAME",
        complete="models",
        help="A model as in run-edit; repeat for several. tiny is trained on the facts of OLD. Default: tiny, and on "
        "the bundled sample also smollm2-135m.",
    )
    methods: OneOrSeveral = flag(
        "--method",
        default=(),
        group="Model",
        metavar="NAME",
        complete="methods",
        help="A method as in run-edit; repeat for several. Default: for tiny locft_bf with --set blocks=2 --set "
        "matrices=all --set steps=120 --set learning_rate=0.0005 --set rehearse=50 --train-context asked, on the "
        "bundled sample also ft_m; for any other model graph_rag.",
    )
    only_failed: bool = python_only(
        default=True, help="Whether to leave out cases that the unedited model already answers correctly."
    )
    spec: Mapping[str, Any] | None = python_only(
        default=None,
        help="Further fields of the run specs, such as sample, seed, device or presets. Each setting goes to the "
        "methods that have it.",
    )
    graph: bool = flag(
        default=True,
        group="Machine",
        help="Update the graph and find changes in it, except those of the sample; otherwise in the store.",
    )
    track: Annotated[str, OneOf(TRACKERS)] | None = flag(
        default=None, group="Output", help="Log the runs' metrics there; see run-edit."
    )
    overwrite: bool = flag(
        default=False, group="Output", help="Replace snapshots, timesteps and runs created with other options."
    )
    on_step: Callable[[StepTaken], None] | None = python_only(
        default=None, help="Called when a step begins, and when it is made or kept."
    )
    progress: Steps | None = python_only(default=None, help="Called with progress within a step.")

    def inputs(self) -> UpInputs:
        """Inputs that the results depend on.

        Raises:
            SourceError: if the day of a dump is unknown, or only one state is given.
            TimestepError: if the states are in the wrong order, or options are inconsistent.
        """
        from kgedit.verbs.up_inputs import read_inputs

        return read_inputs(
            Home(folder_of(self.home)).path,
            self.older,
            self.newer,
            older_date=self.older_date,
            newer_date=self.newer_date,
            models=as_many(self.model),
            methods=as_many(self.methods),
            run={**(self.spec or {}), "only_failed": self.only_failed},
            redirects=None if self.redirects is None else Path(self.redirects),
            profile=self.profile,
            graph=self.graph,
        )

    def run(self) -> Outcome:
        """Take the steps that are left.

        Raises:
            KgeditError: any error of the steps; finished results are kept.
        """
        return carry_out(
            self.inputs(), overwrite=self.overwrite, track=self.track, on_step=self.on_step, progress=self.progress
        )


up = function_of(Up)


def carry_out(
    inputs: UpInputs,
    *,
    overwrite: bool = False,
    track: str | None = None,
    on_step: Callable[[StepTaken], None] | None = None,
    progress: Steps | None = None,
) -> Outcome:
    """Carry out every step without a result; the arguments are those of `up`.

    Raises:
        KgeditError: any error of the steps.
    """
    from kgedit.verbs.up_steps import check_inputs, read_summary, run_folders, steps_of

    check_inputs(inputs, track=track, overwrite=overwrite)
    steps = steps_of(inputs, overwrite=overwrite, track=track)
    taken = _take(
        steps, inputs, on_step or (lambda _taken: None), progress or step_line, overwrite=overwrite, track=track
    )
    numbers = read_summary(inputs)
    if numbers is None:
        raise TimestepError(f"{inputs.report} was changed while it was made. Give the same command again.")
    return Outcome(
        sentences=tuple(numbers["sentences"]),
        page=Path(numbers["page"]),
        changes_page=Path(numbers["changes_page"]),
        timestep=inputs.timestep,
        runs=tuple(run_folders(inputs)),
        numbers=numbers,
        note=inputs.note,
        steps=tuple(taken),
    )


def _take(
    steps: Sequence[Step],
    inputs: UpInputs,
    listener: Callable[[StepTaken], None],
    progress: Steps,
    *,
    overwrite: bool,
    track: str | None,
) -> list[StepTaken]:
    """Take the steps in order; those that a thread or a second process carries out meanwhile are waited for."""
    from kgedit.verbs.up_ahead import run_ahead

    taken: list[StepTaken] = []

    def note(number: int, state: str, seconds: float = 0.0) -> None:
        step = StepTaken(number + 1, len(steps), steps[number].name, state, seconds)
        listener(step)
        if state != "begun":
            taken.append(step)

    beside: dict[int, _Thread] = {}
    with run_ahead(inputs, steps, overwrite=overwrite, track=track) as ahead:
        for number, step in enumerate(steps):
            for other in [other for other, thread in beside.items() if step.kind == "report" or thread.has_ended()]:
                note(other, "made", beside.pop(other).wait())
            begun = time.monotonic()
            is_ahead = ahead is not None and number in ahead.numbers
            is_done = not is_ahead and step.is_done()
            if not is_done:
                note(number, "begun")
            if step.is_beside and not is_done:
                beside[number] = _Thread(step, progress)
                continue
            if ahead and step.kind == "run":
                ahead.start()
            seconds = ahead.wait(number, progress) if ahead and is_ahead else None
            if not is_done and seconds is None:
                step.carry_out(progress)
            note(number, "kept" if is_done else "made", seconds or time.monotonic() - begun)
    return sorted(taken, key=lambda step: step.number)


class _Thread:
    """A step that is carried out while later ones are taken. If the caller ends, the step can be resumed."""

    def __init__(self, step: Step, progress: Steps) -> None:
        self._step, self._progress = step, progress
        self._error: Exception | None = None
        self._seconds = 0.0
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> float:
        """Wait for the end; returns the step's seconds of wall time, or raises its error."""
        self._thread.join()
        if self._error:
            raise self._error
        return self._seconds

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            self._step.carry_out(self._progress)
        except Exception as error:
            self._error = error
        self._seconds = time.monotonic() - begun
