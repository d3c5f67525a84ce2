"""The contract of editing methods: a class that declares what it can do, applies cases, and can save, load and undo.

An editor holds all its state (templates, statistics, memories, masks, seeds); modules hold none. The runner branches on
what a method declares, never on its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from kgedit.editing.deviations import Deviations
from kgedit.editing.row_tables import TableRows
from kgedit.errors import SpecError
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
        protocols: Protocols that it supports; the first is its default.
        most_edits_at_once: Most edits in one ``apply``; None for no limit.
        changes_weights: Whether parameters of the model differ after an edit.
        adds_modules: Whether layers with parameters of their own are added to the model.
        changes_forward: Whether a memory outside the weights changes the forward pass.
        changes_prompt: Whether it may put text ahead of prompts.
        reads_weights: Whether it computes with the model's own weights, though it does not change them.
        needs_known_facts: Whether ``prepare`` uses facts (for demonstrations, unrelated prompts, training or
            statistics).
        source: Paper that describes the method, with the section.
    """

    protocols: tuple[Protocol, ...]
    most_edits_at_once: int | None = None
    changes_weights: bool = False
    adds_modules: bool = False
    changes_forward: bool = False
    changes_prompt: bool = False
    reads_weights: bool = False
    needs_known_facts: bool = False

    source: str = ""

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
        """Whether an edited model computes something else for the same prompt."""
        return self.in_files_of_a_model or self.changes_forward

    @property
    def takes_quantized_weights(self) -> bool:
        """Whether it leaves the model's own weights alone, so that they may be rounded to 4 bits."""
        return not (self.changes_weights or self.reads_weights)

    @property
    def needs_memory(self) -> bool:
        """Whether edits are, wholly or in part, in what `Editor.memory` returns."""
        return self.changes_forward or self.changes_prompt

    @property
    def lives_in_prompts(self) -> bool:
        """Whether the edit is in the prompt alone, so that any server of the unedited model can answer with it."""
        return not (self.in_files_of_a_model or self.changes_forward)

    @property
    def trains_on_prompts(self) -> bool:
        """Whether an edit is learned from its prompt, so that the prompt's format matters."""
        return self.changes_model


@dataclass(frozen=True, slots=True)
class AppliedEdits:
    """What one call of ``apply`` reports.

    Attributes:
        loss: Training loss before the last step, or None where nothing is trained.
        failures: The cases that could not be applied, each with the reason; the others were.
    """

    loss: float | None = None
    failures: tuple[EditFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """A piece of a prefix that is never cut.

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
        """The cases that it was retrieved from, best first; the best is next to the prompt."""
        return tuple(part.case_id for part in reversed(self.parts) if part.case_id)

    def without(self, first: int) -> Prefix:
        """The prefix without its first so many parts."""
        return replace(self, parts=self.parts[first:])


@dataclass(frozen=True, slots=True)
class EditorState:
    """Everything that an editor and its model changed since before the first edit.

    Attributes:
        tensors: Written as safetensors.
        record: Everything that is not a tensor, as JSON values.
        tables: What grows with every edit; whole, but for `Editor.next_checkpoint`.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, TableRows] = field(default_factory=dict)


def _ignore(_: object) -> None:
    """The default callback: does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run that a call of ``apply`` belongs to: where to report progress, write checkpoints and resume.

    Attributes:
        progress: Called with the share of the call's work that is done.
        checkpoint: Called at every point from which the call could be resumed, with a function that copies the state;
            the run calls that function when a checkpoint is due.
        resume: State from such a function, written before the run was interrupted: ``apply`` continues from it, with
            the same result as an uninterrupted call. The state before the call must have been loaded. None to start
            from the beginning.
    """

    progress: Callable[[float], None] = _ignore
    checkpoint: Callable[[Callable[[], EditorState]], None] = _ignore
    resume: EditorState | None = None


NO_RUN = RunContext()
"""For calls of ``apply`` outside of a run."""


class Editor(ABC, Generic[OwnSettings]):
    """One editing method, applied to one model.

    Args:
        model: Unedited; the editor changes it in place, from the first ``apply`` on and not before.
        settings: Hyperparameters, an instance of ``settings_type``.
        contexts: Those that edits are trained in, as the model's tokenizer words them; at least one.
        seed: Source of all randomness.
    """

    capabilities: ClassVar[Capabilities]
    deviations: ClassVar[Deviations]
    """Differences from the paper or its code; a method outside of kgedit need not declare them."""
    settings_type: ClassVar[type[Settings]]

    def __init__(self, model: LanguageModel, settings: OwnSettings, *, contexts: Sequence[Context], seed: int) -> None:
        self.model = model
        self.settings = settings
        self.contexts = tuple(contexts)
        self.seed = seed

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Prepare for the first ``apply`` or ``load_state`` without changing the model.

        Called once if ``capabilities.needs_known_facts``; the result depends on model, settings, seed and facts alone.

        Args:
            known: Facts of the older snapshots, as questions with answers.
            advance: Progress callback: steps done, number of steps.
        """

    @abstractmethod
    def apply(self, cases: Sequence[Case], run: RunContext = NO_RUN) -> AppliedEdits:
        """Edit the model so that it gives each case's target; the result depends on state, seed and cases alone.

        A case that cannot be applied is skipped and reported; the others are still applied.
        """

    @abstractmethod
    def restore(self) -> None:
        """Undo every edit: weights bit for bit, and all other state."""

    @abstractmethod
    def state(self) -> EditorState:
        """A copy of everything that ``load_state`` needs."""

    @abstractmethod
    def load_state(self, state: EditorState) -> None:
        """Load a saved state into a new editor of an unedited model."""

    def next_checkpoint(self) -> EditorState:
        """As `state`, but of tables only the rows that changed since the last call, or since `load_state`."""
        return self.state()

    @property
    def overwrites(self) -> bool:
        """Whether editing a case again withdraws its earlier edit."""
        return False

    def withdraw(self, case_ids: Sequence[str]) -> None:
        """Take single edits back, as if they had never been among the others.

        Raises:
            SpecError: if the method cannot, or holds no such edit.
        """
        raise SpecError(
            [f"{type(self).__name__} cannot withdraw single edits ({', '.join(case_ids)}); restore undoes all"]
        )

    def details(self) -> dict[str, Any]:
        """What the method chose beyond its settings (modules, statistics), as JSON values for the run folder."""
        return {}

    @property
    def has_memory(self) -> bool:
        """Whether `memory` belongs in the folder of a saved model."""
        return self.capabilities.needs_memory

    def memory(self) -> EditorState:
        """The part of an edited model that is not in its weights, if ``has_memory``."""
        return self.state()

    def load_memory(self, memory: EditorState) -> None:
        """Load what `memory` returned; if the method edits weights too, the model already has them."""
        self.load_state(memory)

    def save_model(self, folder: Path) -> None:
        """Write the edited model as transformers reads it, if ``capabilities.in_files_of_a_model``."""
        save_pretrained(self.model, folder)

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Text to put ahead of each bare question; methods that change prompts override this."""
        return [Prefix() for _ in questions]
