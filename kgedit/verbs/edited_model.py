"""Result of `kgedit.edit`: a model with edits in it, which can be queried, saved and restored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload
from weakref import WeakKeyDictionary, WeakSet

from kgedit.editing.saved import LoadedEdits, save_edited
from kgedit.errors import ModelError, SpecError
from kgedit.llm.generation import Question, answer_freely, free_preset
from kgedit.runs.evaluator import fit_prefix
from kgedit.runs.lengths import refuse_long_edits
from kgedit.runs.presets import asked_contexts
from kgedit.timesteps.known_facts import sample_facts

if TYPE_CHECKING:
    from kgedit.editing.editor import Editor
    from kgedit.llm.language_model import LanguageModel
    from kgedit.records.cases import Case
    from kgedit.records.runs import EditFailure, Preset


class ModuleFlags:
    """Training mode and gradient flags as the model's user set them, to be restored."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._training = [(part, part.training) for part in module.modules()]
        self._trained = [parameter for parameter in module.parameters() if parameter.requires_grad]

    def set_for_editing(self) -> None:
        """Set the flags that every editor expects."""
        self._module.eval()
        self._module.requires_grad_(False)

    def restore(self) -> None:
        """Restore the saved flags."""
        for part, training in self._training:
            part.training = training
        for parameter in self._trained:
            parameter.requires_grad_(True)


_in_place: WeakKeyDictionary[Any, WeakSet[EditedModel]] = WeakKeyDictionary()
"""Modules -> those whose edits have changed their weights, and can be restored."""

_turns = count()


class EditedModel:
    """A model with edits in it; created by `kgedit.edit` and `kgedit.load_edited`.

    The edits are in the user's own model: `generate`, pipelines and harnesses return edited answers. Exceptions are
    methods that prepend text to prompts (`rag`, `ike`, `prompt`): `ask` prepends it, and `prompt` returns the full text
    for other callers.

    In a `with` statement, the model is restored at the end.

    Attributes:
        model: The model; `model.module` is that of transformers.
        method: Name of the editing method.
        edits: The cases that were applied and not replaced; not those of the folder that the model was loaded from.
        failures: Cases that the method could not apply, each with the reason.
    """

    def __init__(
        self, editor: Editor[Any], *, method: str, flags: ModuleFlags | None = None, loaded: LoadedEdits | None = None
    ) -> None:
        self.model: LanguageModel = editor.model
        self.method = method
        self.edits: tuple[Case, ...] = ()
        self.failures: tuple[EditFailure, ...] = ()
        self._editor = editor
        self._flags = flags
        self._loaded = loaded
        self._folder_edits = loaded.saved.edits if loaded else ()  # those still in the model
        self._turn = -1
        self._base_fingerprint = self.model.fingerprint  # while the model is unedited: saved folders name it

    def __repr__(self) -> str:
        edits = len(self._folder_edits) + len(self.edits)
        return f"<{self.model.name or 'model'} with {edits} edits by {self.method}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def apply(self, cases: Iterable[Case]) -> None:
        """Apply further edits on top of the existing ones, which `prompt` replaces; without any, nothing happens.

        A method that can withdraw edits keeps one edit per id: of several cases with one id (`make_case` derives it
        from subject and prompt), only the last is applied. Other methods apply all of them.

        Raises:
            SpecError: if the method could not apply any of them, with the reasons.
            ModelError: if one is longer than the model's table of positions, or the model was loaded from a folder that
                contains edited weights only, or edits of `c_rome`.
        """
        given = list(cases)
        if not given:
            return
        self._refuse_fixed_weights()
        if self._editor.overwrites:
            given = list({case.id_in_run: case for case in given}.values())
        if self._editor.capabilities.changes_model:
            refuse_long_edits(self.model, given, self._editor.contexts)
        if self._editor.capabilities.changes_weights and not self.edits:
            _in_place.setdefault(self.model.module, WeakSet()).add(self)
            self._turn = next(_turns)
        applied = self._editor.apply(given)
        failed = {failure.case_id: failure.reason for failure in applied.failures}
        if len(failed) == len(given):
            raise SpecError(
                [f"{self.method} cannot edit '{case.question}': {failed[case.case_id]}" for case in given],
                of="No edit was applied",
            )
        made = [case for case in given if case.case_id not in failed]
        if self._editor.overwrites:
            self._leave_out({case.id_in_run for case in made})
        if self._editor.capabilities.replaces_edits:
            self.edits, self._folder_edits = (), ()
        self.edits += tuple(made)
        self.failures += applied.failures

    def withdraw(self, *case_ids: str) -> None:
        """Remove single edits; the model is recomputed from the keys and values of the remaining edits.

        Supported by `memit` with the setting history, `encore`, `rlsedit` and `alphaedit`, also in a model from
        `load_edited`. Editing a case again withdraws its earlier edit automatically.

        Raises:
            SpecError: if the method cannot withdraw edits, or there is no such edit.
            ModelError: if the model was loaded from a folder that contains edited weights only, or edits of `c_rome`.
        """
        self._refuse_fixed_weights()
        self._editor.withdraw(case_ids)
        self._leave_out(set(case_ids))

    @overload
    def ask(self, question: str, *, preset: str = "question_only") -> str: ...

    @overload
    def ask(self, question: list[str], *, preset: str = "question_only") -> list[str]: ...

    def ask(self, question: str | list[str], *, preset: str = "question_only") -> str | list[str]:
        """Answer with greedy decoding.

        Args:
            question: One question, or several, which are evaluated in batches.
            preset: wild, wild_chat, wild_line, question_only or few_shot: context of the question and end of the
                answer. Demonstrations are facts of the bundled sample.

        Raises:
            SpecError: if the preset does not exist.
            ModelError: if a question is empty and the tokenizer has no token for the beginning of a text.
        """
        questions = [question] if isinstance(question, str) else question
        chosen = free_preset(preset)
        answers = answer_freely(self.model, self._asked(questions, chosen), chosen)
        return answers[0] if isinstance(question, str) else answers

    def prompt(self, question: str, *, preset: str = "question_only") -> str:
        """Text that `ask` sends to the model, including anything that a method prepends to the question."""
        return self._asked([question], free_preset(preset))[0].prompt

    def save(self, folder: str | Path) -> Path:
        """Write the edited model to a new folder; its README.md explains how to load it.

        Edited weights are written in the format of transformers, an adapter in that of peft. The other files are read
        by `kgedit.load_edited`.

        Raises:
            ModelError: if the folder exists, or the model was loaded from a folder that contains edited weights only.
        """
        if self._has_fixed_weights:
            raise ModelError("This model was loaded from a folder of edited weights: copy that folder.")
        return save_edited(
            self._editor,
            Path(folder),
            method=self.method,
            edits=self.edits,
            base_fingerprint=self._base_fingerprint,
            earlier=replace(self._loaded.saved, edits=self._folder_edits) if self._loaded else None,
        )

    def restore(self) -> None:
        """Undo every edit; the model is restored bit for bit.

        Raises:
            ModelError: if it was loaded from a folder that contains edited weights only, or another edit has changed
                weights since.
        """
        if self._loaded is not None and not self._loaded.can_restore:
            raise ModelError(
                f"The folder holds edited weights only. Load the model before them: {self._loaded.saved.base_model}"
            )
        if self.edits and (in_place := _in_place.get(self.model.module)):
            later = [one for one in in_place if one.edits and one._turn > self._turn]
            if self in in_place and later:
                raise ModelError(f"A later edit of this model is still in place: restore {later[0]} first.")
            in_place.discard(self)
        self._editor.restore()
        self.edits, self.failures, self._folder_edits = (), (), ()
        if self._flags is not None:
            self._flags.restore()

    @property
    def _has_fixed_weights(self) -> bool:
        """Whether it was loaded from a folder that contains edited weights only, whose edits cannot be changed."""
        return self._loaded is not None and not self._editor.capabilities.edits_anything

    def _refuse_fixed_weights(self) -> None:
        if self._loaded is not None and (self._has_fixed_weights or not self._editor.edits_when_loaded):
            raise ModelError(
                "The folder holds edited weights only, so that edits can be neither added nor withdrawn. Apply all "
                f"edits to the unedited model: {self._loaded.saved.base_model}"
            )

    def _leave_out(self, case_ids: Set[str]) -> None:
        """Edits with these ids are no longer in the model."""
        self.edits = tuple(case for case in self.edits if case.id_in_run not in case_ids)
        self._folder_edits = tuple(edit for edit in self._folder_edits if edit.case_id not in case_ids)

    def _asked(self, questions: Sequence[str], preset: Preset) -> list[Question]:
        edited = {case.question for case in self.edits}
        shown = [fact for fact in sample_facts() if fact.question not in {*edited, *questions}] if preset.shots else []
        thinking = preset.thinking_tokens > 0
        context = asked_contexts([preset], shown)[preset.name].for_model(self.model.chat, thinking=thinking)
        return [
            fit_prefix(self.model, prefix, question, context=context, preset=preset)[1]
            for prefix, question in zip(self._editor.prefixes(questions), questions, strict=True)
        ]
