"""Contract of editing methods: a class that declares its capabilities, applies cases, and can save, load and undo.

All state (templates, statistics, memories, masks, seeds) is in the editor, none in modules. The runner branches on what
a method declares, never on its name. The method `none` edits nothing, for the baseline of every comparison.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from kgedit.editing.hparams.settings import NoSettings, Settings
from kgedit.editing.row_tables import TableRows
from kgedit.errors import SpecError
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.progress import Advance
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import EditFailure, Protocol

OwnSettings = TypeVar("OwnSettings", bound=Settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of a method, and what it changes.

    Attributes:
        protocols: Supported protocols; the first is the default.
        most_edits_at_once: Maximum number of edits in one ``apply``; None means no limit.
        changes_weights: Whether parameters of the model differ after an edit.
        adds_modules: Whether layers with additional parameters are added to the model.
        changes_forward: Whether a memory outside the weights changes the forward pass.
        changes_prompt: Whether it may prepend text to prompts.
        reads_weights: Whether it computes with the model's weights without changing them.
        needs_known_facts: Whether ``prepare`` uses facts (for demonstrations, unrelated prompts, training or
            statistics).
        resumes_calls: Whether a call of ``apply`` that was killed resumes from its last checkpoint; needed if calls may
            take hours.
        replaces_edits: Whether a call of ``apply`` withdraws the edits of all previous calls.
        source: Paper that describes the method, with the section.
        withdrawing: What withdrawing a single edit does, in one sentence; "" if no edit can be withdrawn.
    """

    protocols: tuple[Protocol, ...]
    most_edits_at_once: int | None = None
    changes_weights: bool = False
    adds_modules: bool = False
    changes_forward: bool = False
    changes_prompt: bool = False
    reads_weights: bool = False
    needs_known_facts: bool = False
    resumes_calls: bool = False
    replaces_edits: bool = False
    source: str = ""
    withdrawing: str = ""

    @property
    def changes(self) -> str:
        """Description of what the method changes."""
        changed = {
            "weights of the model": self.changes_weights,
            "adds an adapter": self.adds_modules,
            "the forward pass, by a separate memory": self.changes_forward,
            "the prompt": self.changes_prompt,
        }
        return ", ".join(words for words, applies in changed.items() if applies) or "nothing"

    @property
    def edits_anything(self) -> bool:
        """Whether there is anything to save."""
        return self.in_files_of_a_model or self.needs_memory

    @property
    def in_files_of_a_model(self) -> bool:
        """Whether edits are saved as files that transformers or peft reads without kgedit."""
        return self.changes_weights or self.adds_modules

    @property
    def changes_model(self) -> bool:
        """Whether the edited model may compute different outputs for the same prompt."""
        return self.in_files_of_a_model or self.changes_forward

    @property
    def takes_quantized_weights(self) -> bool:
        """Whether it neither changes nor reads the model's own weights, so that they may be quantised to 4 bits."""
        return not (self.changes_weights or self.reads_weights)

    @property
    def needs_memory(self) -> bool:
        """Whether edits are completely or partly in the result of `Editor.memory`."""
        return self.changes_forward or self.changes_prompt

    @property
    def lives_in_prompts(self) -> bool:
        """Whether edits affect only the prompt, so that any server of the unedited model can be used."""
        return not (self.in_files_of_a_model or self.changes_forward)

    @property
    def trains_on_prompts(self) -> bool:
        """Whether an edit is trained on its prompt, so that the prompt's format matters."""
        return self.changes_model


@dataclass(frozen=True, slots=True)
class AppliedEdits:
    """Result of one call of ``apply``.

    Attributes:
        loss: Training loss before the last step, or None if nothing is trained.
        failures: Cases that could not be applied, with reasons; all others were applied.
    """

    loss: float | None = None
    failures: tuple[EditFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """Part of a prefix that is never truncated.

    Attributes:
        text: Text of the part.
        case_id: Id of the case that it was retrieved from, or "".
        pair: A question with its answer, formatted by each context; it follows the text.
        ending: Text after the pair.
    """

    text: str
    case_id: str = ""
    pair: tuple[str, str] | None = None
    ending: str = ""

    def worded(self, context: Context) -> str:
        """Text of the part in a context."""
        return f"{self.text}{context.answered(*self.pair) if self.pair else ''}{self.ending}"


@dataclass(frozen=True, slots=True)
class Prefix:
    """Text prepended to one question, after the instruction of the context if there is one.

    Attributes:
        parts: Parts in reading order. If the model's context is too short, the first ones are dropped, never the last.
        first_only: Whether it is only for questions at the very beginning of the text; other contexts omit it.
    """

    parts: tuple[PrefixPart, ...] = ()
    first_only: bool = False

    def worded(self, context: Context) -> str:
        """Text of the prefix in a context."""
        if self.first_only and context.before_question:
            return ""
        return "".join(part.worded(context) for part in self.parts)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """Ids of the cases that it was retrieved from, best first; the best is next to the prompt."""
        return tuple(part.case_id for part in reversed(self.parts) if part.case_id)

    def without(self, first: int) -> Prefix:
        """Return the prefix without its first `first` parts."""
        return replace(self, parts=self.parts[first:])


@dataclass(frozen=True, slots=True)
class EditorState:
    """All changes of an editor and its model since before the first edit.

    Attributes:
        tensors: Written as safetensors.
        record: Everything that is not a tensor, as JSON values.
        tables: Tables that grow with every edit; complete except from `Editor.next_checkpoint`.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, TableRows] = field(default_factory=dict)


def _ignore(_: object) -> None:
    """Default callback that does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run that a call of ``apply`` belongs to: where to report progress, write checkpoints and resume.

    Attributes:
        progress: Called with the finished share of the call's work.
        checkpoint: Called at every point from which the call can be resumed, with a function that copies the state; the
            run calls this function when a checkpoint is due.
        resume: State from such a function, written before the run was interrupted: ``apply`` continues from it, with
            the same result as an uninterrupted call. The state from before the call must have been loaded. None means
            start from the beginning.
    """

    progress: Callable[[float], None] = _ignore
    checkpoint: Callable[[Callable[[], EditorState]], None] = _ignore
    resume: EditorState | None = None


NO_RUN = RunContext()
"""Default for calls of ``apply`` outside of a run."""


class Editor(ABC, Generic[OwnSettings]):
    """An editing method applied to a model.

    Args:
        model: Unedited model; the editor changes it in place, not before the first ``apply``.
        settings: Hyperparameters, an instance of ``settings_type``.
        contexts: Contexts that edits are trained in, with the model's chat template filled in; at least one.
        seed: Source of all randomness.
    """

    capabilities: ClassVar[Capabilities]
    settings_type: ClassVar[type[Settings]]

    def __init__(self, model: LanguageModel, settings: OwnSettings, *, contexts: Sequence[Context], seed: int) -> None:
        self.model = model
        self.settings = settings
        self.contexts = tuple(contexts)
        self.seed = seed

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Prepare for the first ``apply`` or ``load_state`` without changing the model.

        Called once if ``capabilities.needs_known_facts``; the result depends only on model, settings, seed and facts.

        Args:
            known: Facts of the older snapshots, as questions with answers.
            advance: Progress callback: finished steps, number of steps.
        """

    @abstractmethod
    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Edit the model so that it answers with each case's target; the result depends only on state, seed and cases.

        A case that cannot be applied is skipped and reported; the others are still applied.
        """

    @abstractmethod
    def restore(self) -> None:
        """Undo all edits: restore weights bit for bit, and all other state."""

    @abstractmethod
    def state(self) -> EditorState:
        """Return a copy of everything that ``load_state`` needs."""

    @abstractmethod
    def load_state(self, state: EditorState) -> None:
        """Load a saved state into a new editor of an unedited model."""

    def next_checkpoint(self) -> EditorState:
        """Like `state`, but tables contain only rows that changed since the last call or since `load_state`."""
        return self.state()

    @property
    def overwrites(self) -> bool:
        """Whether editing a case again withdraws its previous edit."""
        return False

    def withdraw(self, case_ids: Sequence[str]) -> None:
        """Withdraw single edits, as if they had never been made.

        Raises:
            SpecError: if the method does not support it, or has no such edit.
        """
        raise SpecError(
            [f"{type(self).__name__} cannot withdraw single edits ({', '.join(case_ids)}); restore undoes all"],
            of="Nothing was withdrawn",
        )

    def details(self) -> dict[str, Any]:
        """Choices of the method beyond its settings (modules, statistics), as JSON values for the run folder."""
        return {}

    @property
    def has_memory(self) -> bool:
        """Whether the folder of a saved model needs `memory`."""
        return self.capabilities.needs_memory

    def memory(self) -> EditorState:
        """The part of an edited model that is not in its weights, if ``has_memory``."""
        return self.state()

    def load_memory(self, memory: EditorState) -> None:
        """Load the result of `memory`; if the method also edits weights, the model already has them."""
        self.load_state(memory)

    @property
    def edits_when_loaded(self) -> bool:
        """Whether the result of `memory` is enough for further edits, without `prepare`."""
        return True

    def save_model(self, folder: Path) -> None:
        """Save the edited model in the format of transformers, if ``capabilities.in_files_of_a_model``."""
        self.model.save_pretrained(folder)

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Return the text to prepend to each bare question; methods that change prompts override this."""
        return [Prefix() for _ in questions]


class Unedited(Editor[NoSettings]):
    """Leaves the model unchanged, under every protocol."""

    capabilities = Capabilities(protocols=("per_timestep", "sequential", "single"))
    settings_type = NoSettings

    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:  # noqa: ARG002 - the contract's shape
        """Do nothing."""
        return AppliedEdits()

    def restore(self) -> None:
        """Do nothing."""

    def state(self) -> EditorState:
        """There is no state."""
        return EditorState()

    def load_state(self, state: EditorState) -> None:
        """There is no state."""
