"""What every editing method is: a class that says what it can do, takes cases, and can save, load and undo itself.

An editor holds all its state (templates, statistics, memories, masks, random numbers by seed); nothing is kept in a
module. The runner asks what a method declares and never looks at its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from kgedit.hparams.published import fill, published_for
from kgedit.llm.contexts import Context
from kgedit.llm.language_model import LanguageModel
from kgedit.llm.saving import save_whole
from kgedit.records.cases import Case, KnownFact
from kgedit.records.runs import Protocol, Setting

Settings = TypeVar("Settings")

Advance = Callable[[int, int], None]
"""Told steps done and steps in all."""

Keep = Callable[[Callable[[], "EditorState"]], None]
"""Given a function that copies the state of a call of ``apply`` that is under way; may leave it uncalled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a method can do and what it touches.

    Attributes:
        protocols: Ways of giving it edits; the first is its default.
        most_edits_at_once: Limit of one ``apply``; None for no limit.
        changes_weights: Whether parameters of the model differ after an edit.
        adds_modules: Whether layers with parameters of their own are added to the model.
        changes_forward: Whether a memory beside the model steps into its forward pass.
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

    @property
    def can_be_saved(self) -> bool:
        """Whether the edits lie in files of a model, so that others can load them."""
        return self.changes_weights or self.adds_modules

    source: str = ""


@dataclass(frozen=True, slots=True)
class Applied:
    """What one call of ``apply`` reports.

    Attributes:
        loss: Training loss before the last step, or None where nothing is trained.
        note: Why edits could not be applied, or "".
    """

    loss: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class PrefixPart:
    """A piece of a prefix that makes sense only whole; `case_id` names the case that it was retrieved from, or ""."""

    text: str
    case_id: str = ""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Text that goes ahead of one prompt.

    Attributes:
        parts: As they are read. Where a model has no room for all of them the first are left out, never the last.
    """

    parts: tuple[PrefixPart, ...] = ()

    @property
    def text(self) -> str:
        """What is read."""
        return "".join(part.text for part in self.parts)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """The cases that it came from, best first: those that stand next to the prompt."""
        return tuple(part.case_id for part in reversed(self.parts) if part.case_id)

    def without(self, first: int) -> Prefix:
        """The prefix without its first so many parts."""
        return Prefix(self.parts[first:])


@dataclass(frozen=True, slots=True)
class EditorState:
    """All that distinguishes an editor and its model from before the first edit.

    Attributes:
        tensors: Written as safetensors.
        record: JSON values: whatever is not a tensor.
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


class Editor(ABC, Generic[Settings]):
    """One editing method at work on one model.

    Args:
        model: Unedited; the editor changes it in place, from the first ``apply`` on and not before.
        settings: Hyperparameters, an instance of ``settings_type``; where one is None, ``self.settings`` has what is
            published for the model, or else what ``derive`` says.
        asked: The contexts that the evaluation asks in.
        seed: Source of all randomness.

    Attributes:
        advance: Told within a long ``apply`` what share of its work is done; whoever wants to know sets it.
        keep: Called within a long ``apply`` where the same call could go on later; whoever wants to keep that sets it.
        halfway: What `keep` copied in a sitting that ended: ``apply`` goes on from there, with the same outcome as if
            it had never stopped. The state of before that call must have been loaded. None to begin from the start.
    """

    capabilities: ClassVar[Capabilities]
    settings_type: ClassVar[type[Any]]
    method: ClassVar[str] = ""
    """Name of the folder of published hyperparameters; "" for none."""

    def __init__(self, model: LanguageModel, settings: Settings, *, asked: Sequence[Context], seed: int) -> None:
        self.model = model
        self.settings, self._filled = fill(
            settings, published_for(self.method, model.module.config), self.derive(model)
        )
        self.asked = tuple(asked)
        self.seed = seed
        self.advance: Callable[[float], None] = silent
        self.keep: Keep = forget
        self.halfway: EditorState | None = None

    def derive(self, model: LanguageModel) -> dict[str, Setting]:  # noqa: ARG002 - for those who override
        """Values for settings that are None where nothing is published for the model."""
        return {}

    def prepare(self, known: Sequence[KnownFact], *, advance: Advance) -> None:
        """Get ready before the first ``apply`` or ``load_state``, without changing the model.

        Called once, where ``capabilities.needs_known_facts``; the outcome depends on model, settings, seed and facts.

        Args:
            known: What the older snapshots say, in words.
            advance: Told of steps done and steps in all, where this takes long.
        """

    @abstractmethod
    def apply(self, cases: Sequence[Case]) -> Applied:
        """Edit the model so that it gives each case's answer; the outcome depends on state, seed and cases alone."""

    @abstractmethod
    def restore(self) -> None:
        """Undo everything: weights bit for bit, memories and other state too."""

    @abstractmethod
    def state(self) -> EditorState:
        """A copy of all that ``load_state`` needs."""

    @abstractmethod
    def load_state(self, state: EditorState) -> None:
        """Bring a fresh editor, on an unedited model, to a saved state."""

    def derived(self) -> dict[str, Any]:
        """Choices made for this model that the settings leave open (layer, learning rate); kept with the run.

        ``published_for`` names the model whose published values were taken, or is None.
        """
        return dict(self._filled)

    def save(self, folder: Path) -> None:
        """Write the edited model as a folder that transformers reads, where ``capabilities.can_be_saved``."""
        save_whole(folder, [self.model.tokenizer, self.model.module])

    def prefixes(self, questions: Sequence[str]) -> list[Prefix]:
        """Text to put ahead of the prompt of each bare question; methods that change prompts override this."""
        return [Prefix() for _ in questions]


def silent(share: float) -> None:
    """Progress that nobody looks at."""


def forget(state: Callable[[], EditorState]) -> None:
    """A state that nobody keeps."""
