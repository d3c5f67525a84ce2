"""The contract of editing methods: a class that declares what it can do, applies cases, and can save, load and undo.

An editor holds all its state (templates, statistics, memories, masks, random numbers by seed); nothing is kept in a
module. The runner asks what a method declares and never looks at its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from kgedit.hparams.settings import Settings
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.saving import save_pretrained
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import EditFailure, Protocol

OwnSettings = TypeVar("OwnSettings", bound=Settings)

Advance = Callable[[int, int], None]
"""Called with the steps done and the number of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a method can do and what it touches.

    Attributes:
        protocols: Ways of giving it edits; the first is its default.
        most_edits_at_once: Limit of one ``apply``; None for no limit.
        changes_weights: Whether parameters of the model differ after an edit.
        adds_modules: Whether layers with parameters of their own are added to the model.
        changes_forward: Whether a memory outside the weights changes the forward pass.
        changes_prompt: Whether it may put text ahead of prompts.
        needs_known_facts: Whether ``prepare`` makes use of facts (demonstrations, unrelated prompts, training,
            statistics).
        source: Where the method is described.
    """

    protocols: tuple[Protocol, ...]
    most_edits_at_once: int | None = None
    changes_weights: bool = False
    adds_modules: bool = False
    changes_forward: bool = False
    changes_prompt: bool = False
    needs_known_facts: bool = False

    source: str = ""

    @property
    def edits_anything(self) -> bool:
        """Whether there is anything to save."""
        return self.in_files_of_a_model or self.needs_memory

    @property
    def in_files_of_a_model(self) -> bool:
        """Whether edits lie in files that transformers or peft reads without kgedit."""
        return self.changes_weights or self.adds_modules

    @property
    def needs_memory(self) -> bool:
        """Whether edits lie, wholly or in part, in what `Editor.memory` gives."""
        return self.changes_forward or self.changes_prompt

    @property
    def trains_on_prompts(self) -> bool:
        """Whether an edit is learned from its prompt, so that the prompt's format matters."""
        return self.in_files_of_a_model or self.changes_forward


@dataclass(frozen=True, slots=True)
class Applied:
    """What one call of ``apply`` reports.

    Attributes:
        loss: Training loss before the last step, or None where nothing is trained.
        failures: The cases that could not be applied, each with the reason; the others were.
    """

    loss: float | None = None
    failures: tuple[EditFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """A piece of a prefix that makes sense only whole.

    Attributes:
        text: As it is read.
        case_id: The case that it was retrieved from, or "".
        pair: A question with its answer, which each context words in its own form; it follows the text.
        ending: What follows the pair.
    """

    text: str
    case_id: str = ""
    pair: tuple[str, str] | None = None
    ending: str = ""

    def worded(self, context: Context) -> str:
        """The piece as it is read in a context."""
        return f"{self.text}{context.answered(*self.pair) if self.pair else ''}{self.ending}"


@dataclass(frozen=True, slots=True)
class Prefix:
    """Text that goes ahead of one question, behind whatever instruction the context begins with.

    Attributes:
        parts: As they are read. Where a model has no room for all of them the first are left out, never the last.
        first_only: Whether it is meant for questions that would stand at the very beginning of the text; other contexts
            leave it out.
    """

    parts: tuple[PrefixPart, ...] = ()
    first_only: bool = False

    def worded(self, context: Context) -> str:
        """What is read in a context."""
        if self.first_only and context.before_question:
            return ""
        return "".join(part.worded(context) for part in self.parts)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """The cases that it came from, best first: those that stand next to the prompt."""
        return tuple(part.case_id for part in reversed(self.parts) if part.case_id)

    def without(self, first: int) -> Prefix:
        """The prefix without its first so many parts."""
        return replace(self, parts=self.parts[first:])


@dataclass(frozen=True, slots=True)
class EditorState:
    """All that distinguishes an editor and its model from before the first edit.

    Attributes:
        tensors: Written as safetensors.
        record: JSON values: everything that is not a tensor.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


def _ignore(_: object) -> None:
    """The default callback: does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run that a call of ``apply`` belongs to: where to report progress, write checkpoints and resume.

    Attributes:
        progress: To be called with the share of the call's work that is done.
        checkpoint: To be called wherever the same call could be resumed, with a function that copies the state there;
            that function may stay uncalled.
        resume: What such a function gave before the run was interrupted: ``apply`` continues from there, with
            the same outcome as if it had never stopped. The state before that call must have been loaded. None to
            start from the beginning.
    """

    progress: Callable[[float], None] = _ignore
    checkpoint: Callable[[Callable[[], EditorState]], None] = _ignore
    resume: EditorState | None = None


NO_RUN = RunContext()
"""For calls of ``apply`` outside of a run."""


class Editor(ABC, Generic[OwnSettings]):
    """One editing method at work on one model.

    Args:
        model: Unedited; the editor changes it in place, from the first ``apply`` on and not before.
        settings: Hyperparameters, an instance of ``settings_type``.
        contexts: Those that edits are trained in, as the model's tokenizer words them; at least one.
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
        """Get ready before the first ``apply`` or ``load_state``, without changing the model.

        Called once, where ``capabilities.needs_known_facts``; the outcome depends on model, settings, seed and facts.

        Args:
            known: What the older snapshots say, in words.
            advance: Called with the steps done and the number of steps, where this takes long.
        """

    @abstractmethod
    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> Applied:
        """Edit the model so that it gives each case's answer; the outcome depends on state, seed and cases alone.

        A case that cannot be applied is left out and reported; the others are applied all the same.
        """

    @abstractmethod
    def restore(self) -> None:
        """Undo everything: weights bit for bit, memories and other state too."""

    @abstractmethod
    def state(self) -> EditorState:
        """A copy of all that ``load_state`` needs."""

    @abstractmethod
    def load_state(self, state: EditorState) -> None:
        """Bring a fresh editor, on an unedited model, to a saved state."""

    def details(self) -> dict[str, Any]:
        """What it works with beyond its settings (modules, statistics), as JSON values; kept with the run."""
        return {}

    def memory(self) -> EditorState:
        """What an edited model consists of beside its weights, where ``capabilities.needs_memory``."""
        return self.state()

    def load_memory(self, memory: EditorState) -> None:
        """Bring a fresh editor to what `memory` gave; on a model with edited weights where it edits weights too."""
        self.load_state(memory)

    def save_model(self, folder: Path) -> None:
        """Write the edited model into a folder as transformers reads it, where ``capabilities.in_files_of_a_model``."""
        save_pretrained(self.model, folder)

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Text to put ahead of each bare question; methods that change prompts override this."""
        return [Prefix() for _ in questions]
