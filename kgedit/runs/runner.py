"""Executes a run: evaluates the unedited model, then edits and evaluates per timestep. A killed run resumes.

Order: every probe before any edit; for each timestep its edits, with checkpoints, then its probes (and those of earlier
timesteps if the spec requests it). With the protocol "single", each edit is followed by its own probes and undone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.editing.editor import NO_RUN, Editor, EditorState, RunContext
from kgedit.editing.saved import save_edited
from kgedit.llm.backends.contract import NO_LIMIT
from kgedit.llm.devices import enough_memory, peak_memory_bytes, wait_for
from kgedit.llm.generation import AnswerCache
from kgedit.llm.remote.prices import Spending
from kgedit.progress import Listener
from kgedit.records.cases import Case
from kgedit.records.runs import UNEDITED, EditCost, ModelState, Preparation, RunSpec
from kgedit.resources import home
from kgedit.runs.ability import Meter, meters_of
from kgedit.runs.checkpoints import CallCheckpoint, Checkpoint
from kgedit.runs.evaluator import Evaluator
from kgedit.runs.overlaps import mark_expiring, mark_shared_ids, without_expired
from kgedit.runs.presets import ASKED, training_contexts
from kgedit.runs.run_files import write_edited_cases
from kgedit.runs.run_folder import RunFolder, WrittenKeys, describe_environment, open_run, refuse_other_content
from kgedit.runs.selection import (
    batched,
    choose_cases,
    choose_evaluated,
    edit_units,
    write_selection,
)
from kgedit.runs.setup import Ready, check_options, check_questions, flat, make_ready, unasked, without_answered
from kgedit.runs.spec import write_spec
from kgedit.runs.tracking import Tracking
from kgedit.timesteps.edit_files import Edits, open_edits

SECONDS_BETWEEN_CALL_CHECKPOINTS = 60.0
"""Minimum seconds between two checkpoints within one call of a method."""


def run(
    spec: RunSpec,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    save_model: Path | None = None,
    spending: Spending | None = None,
    tracking: Tracking | None = None,
    progress: Listener | None = None,
) -> Path:
    """Execute a run spec, or resume it.

    Args:
        out: Folder of the run; None means a folder under the home folder, named after method, model and the spec's
            hash.
        overwrite: Whether to discard an existing run in the folder and start over.
        save_model: Folder for the model after the last edit; for a finished run, its last state is saved.
        spending: Spending limit for a backend's server in this call; None means no limit. Not part of the spec: a run
            that the limit stopped resumes with a higher one.
        tracking: Tracker for metrics during the run. The caller closes it. None disables tracking.
        progress: Called at every step.

    Returns:
        The run's folder.

    Raises:
        KgeditError: for every error that the user can fix; the message explains how.
    """
    report = progress or (lambda stage, done, total: None)  # noqa: ARG005 - the shape of Listener
    check_options(spec, save_model, spending)
    target = out or default_folder(spec)
    refuse_other_content(target)
    timesteps = [open_edits(Path(path)) for path in spec.timesteps]
    cases, counts = choose_cases(timesteps, spec)
    check_questions(spec, cases)
    ready = make_ready(spec, timesteps, cases, spending or NO_LIMIT, report)
    environment = describe_environment(spec, ready.editor, timesteps=timesteps, contexts=ready.contexts)
    cache = AnswerCache(home() / "answers" / f"{ready.model.fingerprint}.jsonl")
    if spec.only_failed:
        cases, counts = without_answered(spec, cases, counts, ready, cache=cache, report=report)
    with (
        open_run(target, spec, environment, overwrite=overwrite) as folder,
        enough_memory(f"editing {spec.model} with {spec.method}"),
    ):
        write_selection(folder.path, cases, counts)
        cases = mark_shared_ids(mark_expiring(cases))
        write_edited_cases(folder.path, flat(cases))
        tracked = tracking or Tracking(None)
        tracked.begin(folder.path, spec, ready.settings.settings.model_dump())
        job = _Job(
            spec=spec,
            editor=ready.editor,
            cases=cases,
            asked=choose_evaluated(cases, spec),
            evaluator=Evaluator(
                ready.model, ready.backend, spec.presets, contexts=ready.contexts, folder=folder, cache=cache
            ),
            folder=folder,
            report=report,
            meters=meters_of(folder.path, ready.model, spec),
            tracking=tracked,
        )
        _evaluate_and_edit(job, ready, timesteps)
        if save_model is not None:
            save_edited(ready.editor, save_model, method=spec.method, edits=_applied(job))
        return folder.path


def default_folder(spec: RunSpec) -> Path:
    """Folder of a run without `out`; the same spec always has the same folder."""
    digest = hashlib.sha256(write_spec(spec).encode()).hexdigest()[:10]
    return home() / "runs" / f"{spec.method}-{Path(spec.model).name}-{digest}"


@dataclass(frozen=True, slots=True)
class _Job:
    """Shared data of all stages of a run; `cases` by timestep, in order; `asked` leaves those that are evaluated."""

    spec: RunSpec
    editor: Editor[Any]
    cases: dict[str, list[Case]]
    asked: Callable[[Sequence[Case]], list[Case]]
    evaluator: Evaluator
    folder: RunFolder
    report: Listener
    meters: tuple[Meter, ...]
    tracking: Tracking

    @property
    def all_cases(self) -> list[Case]:
        """The cases of all timesteps."""
        return flat(self.cases)

    def evaluate(self, stage: str, cases: Sequence[Case], state: ModelState) -> None:
        """Evaluate every probe that has no answer yet in this model state."""
        cases = self.asked(cases)
        total, done = self.evaluator.count(cases), 0
        self.report(stage, 0, total)

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self.report(stage, done, total)

        editor = None if state == UNEDITED else self.editor
        is_new = not all(self.evaluator.has(case, state) for case in cases)
        self.evaluator.evaluate(cases, editor, state=state, advance=advance)
        if is_new:
            self.tracking.evaluated(state, step=self.edits_of(state))

    def edits_of(self, state: ModelState) -> int:
        """Number of edits that the model has received in a state, over all timesteps."""
        if state.timestep is None:
            return 0
        earlier = list(self.cases)[: list(self.cases).index(state.timestep)]
        own = len(self.cases[state.timestep]) if state.edits is None else state.edits
        return sum(len(self.cases[timestep]) for timestep in earlier) + own

    def measure_ability(self, state: ModelState) -> None:
        """Measure the general ability of the model in its current state, if the spec requests it."""
        for done, meter in enumerate(self.meters):
            self.report("measure general ability", done, len(self.meters))
            meter.measure(state)
            self.report("measure general ability", done + 1, len(self.meters))

    def apply(self, timestep: str, cases: Sequence[Case], run: RunContext, *, clock: _Clock) -> EditCost:
        """Call the method once."""
        applied = self.editor.apply(cases, run)
        return EditCost(
            timestep=timestep,
            case_ids=tuple(case.case_id for case in cases),
            **clock.read(self.spec.device),
            loss=applied.loss,
            failures=applied.failures,
        )


def _evaluate_and_edit(job: _Job, ready: Ready, timesteps: Sequence[Edits]) -> None:
    """Evaluate the unedited model, prepare the method, then edit and evaluate as the protocol says."""
    spec = job.spec
    job.evaluate("evaluate before any edit", job.all_cases, UNEDITED)
    job.measure_ability(UNEDITED)
    if spec.train_context == ASKED:
        thoughts = job.evaluator.thoughts(job.all_cases)
        job.editor.contexts = training_contexts(ASKED, spec.presets, ready.contexts, ready.model.chat, thoughts)
    job.folder.add_preparation(_prepare(job, timesteps, ready.settings.published_for))
    if spec.protocol == "single":
        _edit_one_by_one(job)
    else:
        _edit_in_sequence(job)


def _edit_one_by_one(job: _Job) -> None:
    """Edit, evaluate and undo one case after another; a case with all its answers is done.

    The edits of an instance (MQuAKE) are applied and undone together.
    """
    written = WrittenKeys((cost.timestep, cost.case_ids) for cost in job.folder.edit_costs())
    for timestep, cases in job.cases.items():
        state, costs = ModelState(timestep), list[EditCost]()
        done = 0
        for unit in edit_units(cases):
            job.report(f"edit and evaluate {timestep}", done, len(cases))
            done += len(unit)
            if all(job.evaluator.has(case, state) for case in unit):
                continue
            for batch in batched(unit, job.editor.capabilities.most_edits_at_once or len(unit)):
                cost = job.apply(timestep, batch, NO_RUN, clock=_Clock())
                if (timestep, cost.case_ids) not in written:
                    job.folder.add_edit(cost)
                costs.append(cost)
            for meter in job.meters:
                meter.measure(state, case_id=unit[-1].case_id)
            job.evaluator.evaluate(unit, job.editor, state=state, advance=lambda _: None)
            job.editor.restore()
            if len(costs) >= job.spec.checkpoint_every or done == len(cases):
                job.tracking.edited(costs, step=job.edits_of(ModelState(timestep, done)))
                costs = []
        job.report(f"edit and evaluate {timestep}", len(cases), len(cases))


def _edit_in_sequence(job: _Job) -> None:
    """Edit timestep after timestep without undoing, starting from the newest checkpoint."""
    start = job.folder.checkpoints.newest()
    job.folder.truncate_edits(start.lines if start else 0)
    if start:
        job.editor.load_state(start.state)
    timesteps = list(job.cases)
    first = timesteps.index(start.timestep) if start else 0
    for index, timestep in enumerate(timesteps[first:], start=first):
        before = [case for other in timesteps[:index] for case in job.cases[other]]
        earlier = without_expired(before, timesteps[: index + 1]) if job.spec.evaluate_earlier else []
        done = start.edits if start and index == first else 0
        _learn(job, timestep, earlier, done=done)
        job.evaluate(f"evaluate after {timestep}", earlier + job.cases[timestep], ModelState(timestep))
        job.measure_ability(ModelState(timestep))


def _learn(job: _Job, timestep: str, earlier: list[Case], *, done: int) -> None:
    """Apply the cases of one timestep from index `done`, with checkpoints on schedule and at the end."""
    spec, cases = job.spec, job.cases[timestep]
    size = spec.batch_size or len(cases)
    lines, saved, costs = job.folder.count_edits(), done, list[EditCost]()
    while done < len(cases):
        # Before the edit, so that a run resumed from a checkpoint evaluates the missing probes.
        if spec.evaluate_every and done // spec.evaluate_every > max(0, done - size) // spec.evaluate_every:
            job.evaluate(
                f"evaluate after {done} edits of {timestep}", earlier + cases[:done], ModelState(timestep, done)
            )
        batch = cases[done : done + size]
        costs.append(_apply_resumably(job, timestep, batch, done=done))
        job.folder.add_edit(costs[-1])
        done, lines = done + len(batch), lines + 1
        if done == len(cases) or done - saved >= spec.checkpoint_every:
            job.folder.checkpoints.save(Checkpoint(timestep, done, lines, job.editor.next_checkpoint()))
            saved = done
            job.tracking.edited(costs, step=job.edits_of(ModelState(timestep, done)))
            costs = []
    job.report(f"edit {timestep}", len(cases), len(cases))


def _apply_resumably(job: _Job, timestep: str, batch: list[Case], *, done: int) -> EditCost:
    """Call the method once, with checkpoints within the call; resumes an interrupted call."""
    total = len(job.cases[timestep])
    earlier = job.folder.checkpoints.of_call(timestep, done, len(batch))
    clock, saved = _Clock(earlier), time.monotonic()
    if earlier is None:
        # A resumed call first reports where it goes on, from which the time left is estimated.
        job.report(f"edit {timestep}", done, total)

    def progress(share: float) -> None:
        job.report(f"edit {timestep}", done + int(share * len(batch)), total)

    def checkpoint(state: Callable[[], EditorState]) -> None:
        nonlocal saved
        if time.monotonic() - saved >= SECONDS_BETWEEN_CALL_CHECKPOINTS:
            found = CallCheckpoint(timestep, done, len(batch), **clock.spent(), state=state())
            job.folder.checkpoints.save_call(found)
            saved = time.monotonic()

    context = RunContext(progress=progress, checkpoint=checkpoint, resume=earlier.state if earlier else None)
    return job.apply(timestep, batch, context, clock=clock)


def _applied(job: _Job) -> list[Case]:
    """The cases that the edited model contains: without those that the method could not apply, or replaced."""
    costs = list(job.folder.edit_costs())
    if job.editor.capabilities.replaces_edits:
        costs = costs[-1:]
    applied = {(cost.timestep, case_id) for cost in costs for case_id in cost.case_ids}
    applied -= {(cost.timestep, failure.case_id) for cost in costs for failure in cost.failures}
    return [case for case in job.all_cases if (case.timestep, case.case_id) in applied]


def _prepare(job: _Job, timesteps: Sequence[Edits], published_for: str | None) -> Preparation:
    """Prepare the editor with the facts that were known before the edits."""
    clock, editor = _Clock(), job.editor
    if editor.capabilities.needs_known_facts:
        known = unasked([fact for timestep in timesteps for fact in timestep.known_facts()], job.all_cases)
        editor.prepare(known, advance=lambda done, total: job.report("prepare the method", done, total))
    return Preparation(
        **clock.read(job.spec.device),
        settings=editor.settings.model_dump(),
        published_for=published_for,
        details=editor.details(),
    )


class _Clock:
    """Clock that starts at creation, plus the time that an interrupted call had already spent."""

    def __init__(self, before: CallCheckpoint | None = None) -> None:
        self._wall = time.perf_counter() - (before.seconds if before else 0)
        self._processor = time.process_time() - (before.cpu_seconds if before else 0)

    def spent(self) -> dict[str, float]:
        """Wall time and processor time, in seconds."""
        return {
            "seconds": round(time.perf_counter() - self._wall, 6),
            "cpu_seconds": round(time.process_time() - self._processor, 6),
        }

    def read(self, device: str) -> dict[str, Any]:
        """Costs that EditCost and Preparation share."""
        wait_for(device)
        return {**self.spent(), "peak_memory_bytes": peak_memory_bytes(device)}
