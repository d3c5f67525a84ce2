"""What a run checks, loads and makes before its first question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgedit.editing import METHODS
from kgedit.editing.editor import Editor
from kgedit.editing.hparams.settings import Resolved, Settings, read_settings
from kgedit.errors import SpecError
from kgedit.llm.backends import BACKENDS
from kgedit.llm.backends.contract import Backend, DevicePlacement
from kgedit.llm.contexts import Context
from kgedit.llm.generation import AnswerCache
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.load_options import LoadOptions
from kgedit.llm.loading import describe_model, load_model
from kgedit.llm.remote.prices import Spending
from kgedit.llm.teaching import choose_lesson
from kgedit.progress import Listener
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import RunSpec, Selection
from kgedit.runs.evaluator import probes_under
from kgedit.runs.lengths import refuse_long_edits, refuse_long_questions
from kgedit.runs.presets import asked_contexts, training_contexts
from kgedit.runs.selection import (
    choose_evaluated,
    leave_out_answered,
)
from kgedit.runs.spec import as_recorded
from kgedit.timesteps.edit_files import Edits
from kgedit.timesteps.edit_files.same_facts import keys_of_cases, keys_of_known
from kgedit.timesteps.known_facts import sample_facts


@dataclass(frozen=True, slots=True)
class Ready:
    """Model, backend and editor of a run; `contexts` by preset."""

    model: LanguageModel
    backend: Backend
    contexts: dict[str, Context]
    settings: Resolved[Settings]
    editor: Editor[Any]


def make_ready(
    spec: RunSpec, timesteps: Sequence[Edits], cases: Mapping[str, list[Case]], spending: Spending, report: Listener
) -> Ready:
    """Load the model and make its editor; raises SpecError for questions and edits that are too long for the model."""
    worded = asked_contexts(spec.presets, _demonstrable(spec, timesteps, cases))
    model = _load(spec, timesteps[0], list(worded.values()), report)
    backend = BACKENDS[spec.backend](
        model,
        spec.backend_url,
        batch_tokens=spec.batch_tokens,
        spending=spending,
        placement=DevicePlacement(spec.device, spec.dtype, spec.trust_remote_code),
    )
    contexts = {
        preset.name: worded[preset.name].for_model(model.chat, thinking=preset.thinking_tokens > 0)
        for preset in spec.presets
    }
    settings = _resolve_settings(spec, model)
    trained_in = training_contexts(spec.train_context, spec.presets, contexts, model.chat)
    refuse_long_questions(model, choose_evaluated(cases, spec)(flat(cases)), spec.presets, contexts)
    if METHODS[spec.method].capabilities.changes_model:
        refuse_long_edits(model, flat(cases), trained_in)
    editor = METHODS[spec.method](model, settings.settings, contexts=trained_in, seed=spec.seed)
    return Ready(model, backend, contexts, settings, editor)


def without_answered(
    spec: RunSpec,
    cases: dict[str, list[Case]],
    counts: list[Selection],
    ready: Ready,
    *,
    cache: AnswerCache,
    report: Listener,
) -> tuple[dict[str, list[Case]], list[Selection]]:
    """Leave out the cases that the unedited model answers already; returns the rest, and the counts with them."""
    preset, stage, done = spec.presets[0], "find what the model answers already", 0
    total = sum(map(len, cases.values()))
    report(stage, 0, total)

    def advance(more: int) -> None:
        nonlocal done
        done += more
        report(stage, done, total)

    return leave_out_answered(
        cases,
        counts,
        ready.model,
        ready.backend,
        preset,
        context=ready.contexts[preset.name],
        cache=cache,
        advance=advance,
    )


def check_questions(spec: RunSpec, cases: Mapping[str, list[Case]]) -> None:
    """Raise SpecError if no evaluated case has a question under any preset."""
    asked = choose_evaluated(cases, spec)
    every = (case for own in cases.values() for case in asked(own))
    if not any(probes_under(case, preset) for case in every for preset in spec.presets):
        axes = ", ".join(dict.fromkeys(axis for preset in spec.presets for axis in preset.axes))
        raise SpecError([f"no case has a question on the axes of the presets ({axes}); take a preset with other axes"])


def check_options(spec: RunSpec, save_model: Path | None, spending: Spending | None) -> None:
    """Raise SpecError for options beside the spec that do not fit it."""
    if save_model is not None:
        _check_saving(spec, save_model)
    if spending is not None and not BACKENDS[spec.backend].needs_url:
        raise SpecError([f"the backend {spec.backend} has no costs; leave out --backend-budget, --backend-prices"])


def _check_saving(spec: RunSpec, target: Path) -> None:
    if not METHODS[spec.method].capabilities.edits_anything:
        raise SpecError([f"{spec.method} edits nothing, so there is no edited model to save; leave out --save-model"])
    if spec.protocol == "single":
        raise SpecError(["the protocol 'single' undoes every edit, so there is no edited model; take another protocol"])
    if target.exists():
        raise SpecError([f"{target} already exists; give another --save-model"], of="The run cannot start")


def _demonstrable(spec: RunSpec, timesteps: Sequence[Edits], cases: Mapping[str, list[Case]]) -> Sequence[KnownFact]:
    """Known facts that presets may show: those that no question asks for, or the sample's if there are too few."""
    most = max(preset.shots for preset in spec.presets)
    if not most:
        return ()
    every = flat(cases)
    known = unasked([fact for timestep in timesteps for fact in timestep.known_facts()], every)
    return known if len(known) >= most else unasked(sample_facts(), every)


def _load(spec: RunSpec, first: Edits, contexts: list[Context], report: Listener) -> LanguageModel:
    """Load the model; `tiny` is trained on the facts known before the first timestep, identically in every run."""
    report(f"load {spec.model}", 0, 1)
    backend = BACKENDS[spec.backend]
    if not backend.needs_weights:
        place = as_recorded(spec).backend_url if backend.needs_url else spec.dtype
        served = describe_model(
            spec.model, served_at=f"{spec.backend} {place or ''}".strip(), weights_here=not backend.needs_url
        )
        report(f"load {spec.model}", 1, 1)
        return served
    model = load_model(
        spec.model,
        device=spec.device,
        dtype=spec.dtype,
        options=LoadOptions(spec.max_memory, spec.trust_remote_code, spec.quantize),
        lesson=choose_lesson(list(first.cases()), first.known_facts(), asked=contexts),
        progress=lambda done, total: report(f"train {spec.model}", done, total),
    )
    report(f"load {spec.model}", 1, 1)
    return model


def _resolve_settings(spec: RunSpec, model: LanguageModel) -> Resolved[Settings]:
    given, problems = read_settings(METHODS[spec.method].settings_type, spec.settings, method=spec.method)
    if given is None:
        raise SpecError(problems)
    return given.resolve(model)


def unasked(known: Sequence[KnownFact], cases: Sequence[Case]) -> list[KnownFact]:
    """Known facts that no probe of any case asks for."""
    asked = keys_of_cases(cases)
    return [fact for fact in known if asked.isdisjoint(keys_of_known(fact))]


def flat(cases: Mapping[str, Sequence[Case]]) -> list[Case]:
    """The cases of all timesteps."""
    return [case for own in cases.values() for case in own]
