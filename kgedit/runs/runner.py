"""A run: ask before any edit, then learn timestep by timestep and ask again. Killed anywhere, it can go on.

The order is: every question before any edit; for each timestep its edits, with checkpoints, then its questions (and
those of earlier timesteps where asked for). Under "single" each edit is followed by its own questions and undone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kgedit.benchmark.easyedit import Edits, open_edits
from kgedit.editing import METHODS
from kgedit.editing.editor import Editor, EditorState, Keep
from kgedit.errors import BenchmarkError, SpecError
from kgedit.hparams.settings import read_settings
from kgedit.llm.answer_cache import AnswerCache
from kgedit.llm.contexts import Context, read_context
from kgedit.llm.devices import enough_memory, peak_memory_bytes, wait_for
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import load_model
from kgedit.llm.tiny import choose_lesson
from kgedit.records.cases import Case
from kgedit.records.runs import EditCost, Preparation, RunSpec
from kgedit.resources import home
from kgedit.runs.environment import describe_environment
from kgedit.runs.evaluator import Evaluator, ModelState
from kgedit.runs.run_folder import Checkpoint, Halfway, RunFolder, open_run
from kgedit.runs.spec import write_spec

Progress = Callable[[str, int, int], None]
"""Told the stage, how many of its steps are done, and how many there are."""

BETWEEN_KEEPING = 60.0
"""Least seconds between two savings within one call of a method."""


def run(
    spec: RunSpec,
    out: Path | None = None,
    *,
    overwrite: bool = False,
    save_model: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Do what a spec says, or what is left of it.

    Args:
        out: The run's folder; None for one under the home folder, named after method, model and the spec's hash.
        overwrite: Begin afresh where the folder holds a run.
        save_model: Where the model goes after the last edit; a finished run given again saves what it ended with.
        progress: Told of every step.

    Returns:
        The run's folder.

    Raises:
        KgeditError: whatever is the user's to mend, with what to do.
    """
    report = progress or (lambda stage, done, total: None)  # noqa: ARG005 - the shape of Progress
    if save_model is not None:
        _check_saving(spec, save_model)
    timesteps = [open_edits(Path(path)) for path in spec.timesteps]
    cases = _read_cases(timesteps, spec.limit)
    contexts = {preset.context: read_context(preset.context) for preset in spec.presets}
    model = _load(spec, timesteps[0], list(contexts.values()), report)
    editor = _new_editor(spec, model, list(contexts.values()))
    environment = describe_environment(spec, editor, timesteps=timesteps, contexts=list(contexts.values()))
    with (
        open_run(out or default_folder(spec), spec, environment, overwrite=overwrite) as folder,
        enough_memory(f"editing {spec.model} with {spec.method}"),
    ):
        evaluator = Evaluator(
            model,
            spec.presets,
            contexts=contexts,
            folder=folder,
            cache=AnswerCache(home() / "answers" / f"{model.fingerprint}.jsonl"),
            batch_tokens=spec.batch_tokens,
        )
        every = [case for own in cases.values() for case in own]
        advance = _count("ask before any edit", evaluator.count(every), report)
        evaluator.evaluate(every, None, state=ModelState(), advance=advance)
        folder.add_preparation(_prepare(spec, editor, timesteps, cases=every, report=report))
        if spec.protocol == "single":
            _run_single(spec, editor, cases, evaluator=evaluator, folder=folder, report=report)
        else:
            _run_stream(spec, editor, cases, evaluator=evaluator, folder=folder, report=report)
        if save_model is not None:
            editor.save(save_model)
        return folder.path


def _check_saving(spec: RunSpec, target: Path) -> None:
    if not METHODS[spec.method].capabilities.can_be_saved:
        raise SpecError([f"{spec.method} changes no weights, so there is no edited model to save; leave --save-model"])
    if spec.protocol == "single":
        raise SpecError(["the protocol 'single' undoes every edit, so there is no edited model; take another protocol"])
    if target.exists():
        raise SpecError([f"{target} is there already; give another --save-model"])


def default_folder(spec: RunSpec) -> Path:
    """Where a run goes that was given no folder: the same spec always finds the same one."""
    digest = hashlib.sha256(write_spec(spec).encode()).hexdigest()[:10]
    return home() / "runs" / f"{spec.method}-{Path(spec.model).name}-{digest}"


def _read_cases(timesteps: Sequence[Edits], limit: int | None) -> dict[str, list[Case]]:
    cases: dict[str, list[Case]] = {}
    for timestep in timesteps:
        if timestep.name in cases:
            raise SpecError([f"two of the timesteps are called {timestep.name}; give each once"])
        cases[timestep.name] = list(timestep.cases())[:limit]
        if not cases[timestep.name]:
            raise BenchmarkError(
                f"The timestep {timestep.name} holds no cases, so there is nothing to edit. Its timestep.json tells "
                "which filters dropped them; export it again with more properties or dates further apart."
            )
    return cases


def _load(spec: RunSpec, first: Edits, contexts: list[Context], report: Progress) -> LanguageModel:
    """Only "tiny" looks at the lesson: it is taught what was known before the first timestep, whatever the seed."""
    report(f"load {spec.model}", 0, 1)
    model = load_model(
        spec.model,
        device=spec.device,
        dtype=spec.dtype,
        lesson=choose_lesson(list(first.cases()), first.known_facts(), asked=contexts),
        progress=lambda done, total: report(f"train {spec.model}", done, total),
    )
    report(f"load {spec.model}", 1, 1)
    return model


def _new_editor(spec: RunSpec, model: LanguageModel, asked: list[Context]) -> Editor[Any]:
    method = METHODS[spec.method]
    settings, problems = read_settings(method.settings_type, spec.settings, method=spec.method)
    if problems:
        raise SpecError(problems)
    return method(model, settings, asked=asked, seed=spec.seed)


def _prepare(
    spec: RunSpec, editor: Editor[Any], timesteps: Sequence[Edits], *, cases: Sequence[Case], report: Progress
) -> Preparation:
    """Give the editor what was known before, but nothing that any question of the run asks for."""
    clock = _Clock()
    if editor.capabilities.needs_known_facts:
        facts = [fact for case in cases for probe in case.probes for fact in (case.fact, *probe.facts)]
        asked = {(fact.subject, fact.property) for fact in facts}
        every = [known for timestep in timesteps for known in timestep.known_facts()]
        known = [fact for fact in every if (fact.fact.subject, fact.fact.property) not in asked]
        editor.prepare(known, advance=lambda done, total: report("prepare the method", done, total))
    return Preparation(**clock.read(spec.device), derived=editor.derived())


def _run_single(
    spec: RunSpec,
    editor: Editor[Any],
    cases: dict[str, list[Case]],
    *,
    evaluator: Evaluator,
    folder: RunFolder,
    report: Progress,
) -> None:
    """Edit, ask, undo, one case after another; an edit's answers tell whether it was finished."""
    written = {(cost.timestep, cost.case_ids) for cost in folder.edits()}
    for name, own in cases.items():
        for done, case in enumerate(own):
            report(f"edit and ask {name}", done, len(own))
            if evaluator.has(case, name):
                continue
            cost = _apply(spec, editor, name, [case], clock=_Clock())
            if (name, cost.case_ids) not in written:
                folder.add_edit(cost)
            evaluator.evaluate([case], editor, state=ModelState(name), advance=lambda _: None)
            editor.restore()
        report(f"edit and ask {name}", len(own), len(own))


def _run_stream(
    spec: RunSpec,
    editor: Editor[Any],
    cases: dict[str, list[Case]],
    *,
    evaluator: Evaluator,
    folder: RunFolder,
    report: Progress,
) -> None:
    """Timestep after timestep without undoing anything."""
    start = folder.checkpoint()
    folder.keep_edits(start.lines if start else 0)
    if start:
        editor.load_state(start.state)
    names = list(cases)
    first = names.index(start.timestep) if start else 0
    for index, name in enumerate(names[first:], start=first):
        earlier = [case for other in names[:index] for case in cases[other]] if spec.evaluate_earlier else []

        def ask(edits: int | None, name: str = name, earlier: list[Case] = earlier) -> None:
            asked = earlier + cases[name][:edits]
            stage = f"ask after {name}" if edits is None else f"ask after {edits} edits of {name}"
            advance = _count(stage, evaluator.count(asked), report)
            evaluator.evaluate(asked, editor, state=ModelState(name, edits), advance=advance)

        done = start.edits if start and index == first else 0
        _learn(spec, editor, cases[name], done=done, folder=folder, report=report, ask=ask)
        ask(None)


def _learn(
    spec: RunSpec,
    editor: Editor[Any],
    cases: list[Case],
    *,
    done: int,
    folder: RunFolder,
    report: Progress,
    ask: Callable[[int], None],
) -> None:
    """Apply the cases of one timestep from number `done` on, with a checkpoint now and then and at the end."""
    name, size = cases[0].timestep, spec.batch_size or len(cases)
    lines, saved = len(folder.edits()), done
    while done < len(cases):
        # Here and not after the edit, so that a run that goes on from a checkpoint asks what it had not asked.
        if spec.evaluate_every and done // spec.evaluate_every > max(0, done - size) // spec.evaluate_every:
            ask(done)
        report(f"edit {name}", done, len(cases))
        batch = cases[done : done + size]
        halfway = folder.halfway(name, done, len(batch))
        clock = _Clock(halfway)
        editor.halfway = halfway.state if halfway else None
        editor.keep = _keeper(folder, name, done, cases=len(batch), clock=clock)
        editor.advance = _within(name, done, batch=len(batch), total=len(cases), report=report)
        folder.add_edit(_apply(spec, editor, name, batch, clock=clock))
        done, lines = done + len(batch), lines + 1
        if done == len(cases) or done - saved >= spec.checkpoint_every:
            folder.save_checkpoint(Checkpoint(name, done, lines, editor.state()))
            saved = done
    report(f"edit {name}", len(cases), len(cases))


def _apply(spec: RunSpec, editor: Editor[Any], timestep: str, cases: list[Case], *, clock: _Clock) -> EditCost:
    applied = editor.apply(cases)
    return EditCost(
        timestep=timestep,
        case_ids=tuple(case.case_id for case in cases),
        **clock.read(spec.device),
        loss=applied.loss,
        note=applied.note,
    )


def _within(timestep: str, done: int, *, batch: int, total: int, report: Progress) -> Callable[[float], None]:
    """Progress within one call of the method, in whole edits."""
    return lambda share: report(f"edit {timestep}", done + int(share * batch), total)


def _keeper(folder: RunFolder, timestep: str, first: int, *, cases: int, clock: _Clock) -> Keep:
    """Writes down where a call stands, now and then."""
    last = time.monotonic()

    def keep(state: Callable[[], EditorState]) -> None:
        nonlocal last
        if time.monotonic() - last >= BETWEEN_KEEPING:
            folder.save_halfway(Halfway(timestep, first, cases, **clock.spent(), state=state()))
            last = time.monotonic()

    return keep


class _Clock:
    """Started when it is made, ahead by what an earlier sitting spent."""

    def __init__(self, before: Halfway | None = None) -> None:
        self._wall = time.perf_counter() - (before.seconds if before else 0)
        self._processor = time.process_time() - (before.cpu_seconds if before else 0)

    def spent(self) -> dict[str, float]:
        """Seconds of the wall and of the processor."""
        return {
            "seconds": round(time.perf_counter() - self._wall, 6),
            "cpu_seconds": round(time.process_time() - self._processor, 6),
        }

    def read(self, device: str) -> dict[str, Any]:
        """The three costs that EditCost and Preparation have in common."""
        wait_for(device)
        return {**self.spent(), "peak_memory_bytes": peak_memory_bytes(device)}


def _count(stage: str, total: int, report: Progress) -> Callable[[int], None]:
    done = 0
    report(stage, 0, total)

    def advance(more: int) -> None:
        nonlocal done
        done += more
        report(stage, done, total)

    return advance
