"""Editing of a loaded model from Python: `edit`, and functions to load models and edits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from kgedit.errors import SpecError, names_extra
from kgedit.progress import ignore
from kgedit.resources import use_home
from kgedit.verbs.home import Home, folder_of

if TYPE_CHECKING:
    from kgedit.llm.language_model import LanguageModel
    from kgedit.records.cases import Case, KnownFact
    from kgedit.verbs.edited_model import EditedModel


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


@overload
def ask(model: LanguageModel, question: str, *, preset: str = "question_only") -> str: ...


@overload
def ask(model: LanguageModel, question: list[str], *, preset: str = "question_only") -> list[str]: ...


def ask(model: LanguageModel, question: str | list[str], *, preset: str = "question_only") -> str | list[str]:
    """Answer questions by greedy decoding, with the model's current edits.

    Only `EditedModel.ask` prepends the text of `rag`, `ike` or `prompt` to questions.

    Args:
        question: One question, or a list of questions, which are batched.
        preset: wild, wild_line, question_only or few_shot: determines the context of the question and the end of the
            answer.

    Raises:
        SpecError: if there is no such preset.
        ModelError: if a question is empty and the tokenizer has no token for the beginning of a text.
    """
    from kgedit.llm.contexts import read_context
    from kgedit.llm.generation import Question, answer_freely, free_preset

    chosen = free_preset(preset)
    context = read_context(chosen.context)
    texts = [question] if isinstance(question, str) else question
    answers = answer_freely(model, [Question(context.prompt(text), "") for text in texts], chosen)
    return answers[0] if isinstance(question, str) else answers


def make_case(*, prompt: str, subject: str, target: str) -> Case:
    """Create an edit.

    Args:
        prompt: A question, or a sentence that ends just before the answer. "{}" in it is replaced by the subject.
        subject: Subject as it appears in the prompt; required by some methods, may be "" for others.
        target: Answer that the model should give.

    Raises:
        SpecError: if the prompt or the target is empty, or there is no subject for "{}".
    """
    from kgedit.timesteps.edit_files.contract import SLOT
    from kgedit.timesteps.edit_files.easyedit import case_of_row

    missing = [name for name, text in (("prompt", prompt), ("target", target)) if not text.strip()]
    if SLOT in prompt and not subject.strip():
        missing.append(f"subject for the {SLOT} in its prompt")
    if missing:
        raise SpecError([f"an edit needs a {name}" for name in missing], of="The edit is incomplete")
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
    """Edit a model in place; `restore` of the result restores every bit.

    Give one edit by prompt, subject and target, or several by cases: those of a timestep, or of `make_case`.

    Args:
        model: A causal language model of transformers, or a model from `load_model`.
        method: Name of an editing method, such as rome, memit, ft_m, lora, grace, wise, rag.
        prompt: A question, or a sentence that ends just before the answer.
        subject: Subject as it appears in the prompt.
        target: Answer that the model should give.
        cases: Cases to edit, instead of prompt, subject and target.
        tokenizer: Fast tokenizer of the model; None loads the one next to the model.
        settings: Hyperparameters by name; others have the values published for the model, defaults, or values derived
            from it (`withdrawable` is true by default).
        known_facts: Previously true facts, for methods that build statistics, demonstrations or unrelated prompts from
            them (`Timestep.known_facts()`); None means those of the bundled sample. Edited facts are left out.
        contexts: Contexts that edits are trained in, by name: question_only, question_answer, instruction, the path of
            a file; chat, or chat:NAME, for a user turn in the model's chat template.
        seed: Source of all randomness.
        home: Home folder for statistics and trained networks, which are reused; None means `$KGEDIT_HOME`, else
            `./kgedit-data`.

    Raises:
        UnknownNameError: if the method does not exist.
        SpecError: if settings are invalid, or an edit is incomplete.
        ModelError: if the model has no tokenizer, its architecture is not supported, or an edit is longer than its
            table of positions.
    """
    from kgedit.editing import make_editor
    from kgedit.llm.contexts import read_context
    from kgedit.verbs.edited_model import EditedModel, ModuleFlags

    chosen = _cases(prompt, subject, target, cases)
    language_model = as_language_model(model, tokenizer)
    language_model.forget_fingerprint()  # its user may have trained it since an earlier call
    read = [read_context(name).for_model(language_model.chat) for name in contexts]
    flags = ModuleFlags(language_model.module)
    with use_home(folder_of(home)), ExitStack() as on_error:
        on_error.callback(flags.restore)
        flags.set_for_editing()
        editor = make_editor(method, language_model, _own_settings(method, settings), contexts=read, seed=seed)
        on_error.callback(editor.restore)
        edited = EditedModel(editor, method=method, flags=flags)
        if editor.capabilities.needs_known_facts:
            editor.prepare(_known(known_facts, chosen), advance=ignore)
        edited.apply(chosen)
        on_error.pop_all()
    return edited


@names_extra
def load_edited(
    folder: str | Path, *, model: Any = None, tokenizer: Any = None, device: str = "auto", dtype: str = "auto"
) -> EditedModel:
    """Load an edited model from a folder written by `EditedModel.save` or `kgedit run-edit --save-model`.

    Args:
        folder: Folder with kgedit.json.
        model: The unedited model, if already loaded, to be edited in place; None loads it by the name in the folder.
            Not for folders with edited weights, which are loaded directly.
        tokenizer: See `edit`.
        device: Device to load the model on.
        dtype: Number format to load it in: that of the unedited model gives the same answers. "auto" is the device's
            own, which on a CPU is float32, also for edits that were made in bfloat16.

    Raises:
        ModelError: if the folder contains no edited model, its base cannot be found, or `model` has other layers or is
            given for a folder with edited weights.
    """
    from kgedit.editing.saved import load_saved
    from kgedit.llm.devices import resolve_device, resolve_dtype
    from kgedit.verbs.edited_model import EditedModel

    base = None if model is None else as_language_model(model, tokenizer)
    if base is not None:
        base.forget_fingerprint()
    chosen = resolve_device(device)
    loaded = load_saved(Path(folder), base=base, device=chosen, dtype=resolve_dtype(dtype, chosen))
    return EditedModel(loaded.editor, method=loaded.saved.method, loaded=loaded)


def _cases(prompt: str | None, subject: str, target: str | None, cases: Iterable[Case] | None) -> list[Case]:
    if (prompt is None) == (cases is None) or (prompt is None) != (target is None):
        raise SpecError(["give either prompt, subject and target, or cases"], of="Nothing was edited")
    if prompt is not None and target is not None:
        return [make_case(prompt=prompt, subject=subject, target=target)]
    chosen = list(cases or ())
    if not chosen:
        raise SpecError(["there are no cases to edit"], of="Nothing was edited")
    return chosen


def as_language_model(model: Any, tokenizer: Any) -> LanguageModel:
    """Wrap a transformers model with its tokenizer; a wrapped model is returned unchanged."""
    from kgedit.llm.language_model import LanguageModel
    from kgedit.llm.loading import wrap_model

    return model if isinstance(model, LanguageModel) else wrap_model(model, tokenizer)


def _own_settings(method: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings as given; `withdrawable` defaults to true here, while a run keeps no edits for withdrawal."""
    from kgedit.editing import METHODS

    kept = {"withdrawable": True} if "withdrawable" in METHODS[method].settings_type.model_fields else {}
    return {**kept, **(given or {})}


def _known(given: Iterable[KnownFact] | None, cases: list[Case]) -> list[KnownFact]:
    """Known facts without the edited ones; a user's own case identifies its subject by words only."""
    from kgedit.runs.setup import unasked
    from kgedit.timesteps.known_facts import sample_facts

    subjects = {case.fact.subject_label for case in cases}
    known = [fact for fact in sample_facts() if fact.fact.subject_label not in subjects] if given is None else given
    return unasked(list(known), cases)
