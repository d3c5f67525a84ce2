"""A loaded model edited from Python: `edit`, and what leads to it and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgedit.api.home import Home, folder_of
from kgedit.errors import SpecError
from kgedit.extras import names_extra
from kgedit.resources import use_home

if TYPE_CHECKING:
    from kgedit.api.edited_model import EditedModel
    from kgedit.llm.language_model import LanguageModel
    from kgedit.records.cases import Case, KnownFact


@names_extra
def load_model(name: str, *, device: str = "auto", dtype: str = "auto") -> LanguageModel:
    """Load a model for `edit`; its `module` is the transformers model.

    Args:
        name: smollm2-135m, a folder, or a name on the Hugging Face hub.
        device: auto, cpu, cuda, cuda:N, cuda:all or mps.
        dtype: auto, float32, bfloat16 or float16.

    Raises:
        ModelError: if it cannot be found, or does not fit.
    """
    from kgedit.llm import loading
    from kgedit.llm.devices import resolve_device, resolve_dtype

    chosen = resolve_device(device)
    return loading.load_model(name, device=chosen, dtype=resolve_dtype(dtype, chosen))


def make_case(*, prompt: str, subject: str, target: str) -> Case:
    """An edit of your own.

    Args:
        prompt: A question, or a sentence that breaks off where the answer follows.
        subject: What it is about, as it stands in the prompt; some methods need it, others may do with "".
        target: What the model is to answer.

    Raises:
        SpecError: if the prompt or the target is empty.
    """
    from kgedit.timesteps.edit_files.easyedit import case_of_row

    missing = [name for name, text in (("prompt", prompt), ("target", target)) if not text.strip()]
    if missing:
        raise SpecError([f"an edit needs a {name}" for name in missing])
    number = int.from_bytes(hashlib.sha256(f"{subject}\n{prompt}".encode()).digest()[:4], "big")
    return case_of_row({"prompt": prompt, "subject": subject, "target": target}, number, "edits")


@names_extra
def edit(
    model: Any,
    method: str,
    *,
    prompt: str | None = None,
    subject: str = "",
    target: str | None = None,
    cases: Iterable[Case] | None = None,
    tokenizer: Any = None,
    settings: Mapping[str, Any] | None = None,
    known_facts: Iterable[KnownFact] | None = None,
    contexts: Iterable[str] = ("question_only",),
    seed: int = 0,
    home: Home | str | Path | None = None,
) -> EditedModel:
    """Edit a model in place; `restore` of what is returned gives every bit back.

    One edit is given by prompt, subject and target, several by cases: those of a timestep, or of `make_case`.

    Args:
        model: A causal language model of transformers, or what `load_model` gives.
        method: Name of an editing method, such as rome, memit, ft_m, lora, grace, wise, rag.
        prompt: A question, or a sentence that breaks off where the answer follows.
        subject: What it is about, as it stands in the prompt.
        target: What the model is to answer.
        cases: Instead of prompt, subject and target.
        tokenizer: The model's fast tokenizer; None to load the one beside the model.
        settings: Hyperparameters by name; the rest is as published for the model, by default, or derived from it
            (`withdrawable` is true unless given).
        known_facts: What held before, for methods that build statistics, demonstrations or unrelated prompts from it
            (`Timestep.known_facts()`); None for those of the bundled sample. Facts that are edited are left out.
        contexts: Those that edits are trained in, by name: question_only, question_answer, instruction, a file's path;
            chat, or chat:NAME, for a user's turn in the model's chat template.
        seed: Source of all randomness.
        home: Where statistics and trained networks are kept and found again; None for `$KGEDIT_HOME`, else
            `./kgedit-data`.

    Raises:
        UnknownNameError: if there is no such method.
        SpecError: if settings are wrong, or an edit is incomplete.
        ModelError: if the model has no tokenizer, or its build is not understood.
    """
    from kgedit.api.edited_model import EditedModel, ModuleFlags
    from kgedit.editing import make_editor
    from kgedit.llm.contexts import read_context

    chosen = _cases(prompt, subject, target, cases)
    language_model = as_language_model(model, tokenizer)
    language_model.forget_fingerprint()  # since an earlier call its user may have trained it
    read = [read_context(name).for_model(language_model.chat) for name in contexts]
    flags = ModuleFlags(language_model.module)
    with use_home(folder_of(home)), ExitStack() as on_error:
        on_error.callback(flags.restore)
        flags.set_for_editing()
        editor = make_editor(method, language_model, _own_settings(method, settings), contexts=read, seed=seed)
        on_error.callback(editor.restore)
        edited = EditedModel(editor, method=method, flags=flags)
        if editor.capabilities.needs_known_facts:
            editor.prepare(_known(known_facts, chosen), advance=lambda _done, _total: None)
        edited.apply(chosen)
        on_error.pop_all()
    return edited


@names_extra
def load_edited(
    folder: str | Path, *, model: Any = None, tokenizer: Any = None, device: str = "auto", dtype: str = "auto"
) -> EditedModel:
    """Load an edited model from a folder that `EditedModel.save` or `kgedit run-edit --save-model` wrote.

    Args:
        folder: It holds kgedit.json.
        model: The unedited model, where it is loaded already, to be edited in place; None to load it by the name that
            the folder gives. Not for folders with edited weights, which are loaded as they are.
        tokenizer: As for `edit`.
        device: Where a model is loaded to.
        dtype: Number format in which it is loaded.

    Raises:
        ModelError: if the folder holds no edited model, or its base cannot be found.
    """
    from kgedit.api.edited_model import EditedModel
    from kgedit.editing.saved import load_saved
    from kgedit.llm.devices import resolve_device, resolve_dtype

    base = None if model is None else as_language_model(model, tokenizer)
    if base is not None:
        base.forget_fingerprint()
    chosen = resolve_device(device)
    loaded = load_saved(Path(folder), base=base, device=chosen, dtype=resolve_dtype(dtype, chosen))
    return EditedModel(loaded.editor, method=loaded.saved.method, loaded=loaded)


def _cases(prompt: str | None, subject: str, target: str | None, cases: Iterable[Case] | None) -> list[Case]:
    if (prompt is None) == (cases is None) or (prompt is None) != (target is None):
        raise SpecError(["give either prompt, subject and target, or cases"])
    if prompt is not None and target is not None:
        return [make_case(prompt=prompt, subject=subject, target=target)]
    chosen = list(cases or ())
    if not chosen:
        raise SpecError(["there are no cases to edit"])
    return chosen


def as_language_model(model: Any, tokenizer: Any) -> LanguageModel:
    """A model of transformers with its tokenizer, wrapped; what is wrapped already stays as it is."""
    from kgedit.llm.language_model import LanguageModel
    from kgedit.llm.loading import wrap_model

    return model if isinstance(model, LanguageModel) else wrap_model(model, tokenizer)


def _own_settings(method: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings as given; edits can be withdrawn unless they say otherwise, while a run keeps no edit."""
    from kgedit.editing import METHODS

    kept = {"withdrawable": True} if "withdrawable" in METHODS[method].settings_type.model_fields else {}
    return {**kept, **(given or {})}


def _known(given: Iterable[KnownFact] | None, cases: list[Case]) -> list[KnownFact]:
    """Known facts without those that are edited, of which a case of the user's own tells the subject in words only."""
    from kgedit.runs.runner import unasked
    from kgedit.timesteps.sample_facts import sample_facts

    subjects = {case.fact.subject_label for case in cases}
    known = [fact for fact in sample_facts() if fact.fact.subject_label not in subjects] if given is None else given
    return unasked(list(known), cases)
