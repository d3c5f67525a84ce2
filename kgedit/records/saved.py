"""What kgedit.json of a saved edited model holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgedit.records.runs import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEdit:
    """One edit: the prompt and what the model is to answer."""

    case_id: str
    subject: str
    prompt: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContext:
    """A context that edits were trained in; the fields are those of a `Context`."""

    name: str
    template: str
    in_chat: bool = False
    demonstrations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEdits:
    """The content of kgedit.json.

    Attributes:
        format: Version of this record.
        kgedit: Version that wrote it.
        method: Name of the editing method.
        source: Where the method is described.
        base_model: The unedited model, as the user named it; "" where it had no name.
        base_revision: Its commit on the hub, or "".
        base_fingerprint: Digest of its weights, configuration and tokenizer.
        weights: What beside it transformers or peft reads: the whole edited model, an adapter, or nothing.
        memory: Whether edits lie in memory.json and memory.safetensors.
        settings: Every hyperparameter.
        contexts: Those that edits were trained in.
        seed: Source of all randomness.
        edits: In the order in which they were given.
    """

    format: int
    kgedit: str
    method: str
    source: str
    base_model: str
    base_revision: str
    base_fingerprint: str
    weights: Literal["model", "adapter", "none"]
    memory: bool
    settings: dict[str, Setting]
    contexts: tuple[SavedContext, ...]
    seed: int
    edits: tuple[SavedEdit, ...]
