"""Content of kgedit.json of a saved edited model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgedit.records.runs import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEdit:
    """One edit: the prompt and the target."""

    case_id: str
    subject: str
    prompt: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContext:
    """A context that edits were trained in; the fields are those of `Context`."""

    name: str
    template: str
    in_chat: bool = False
    demonstrations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEdits:
    """Content of kgedit.json.

    Attributes:
        format: Version of this record.
        kgedit: Version of kgedit that wrote it.
        method: Name of the editing method.
        source: Publication that describes the method.
        base_model: Unedited model as named by the user; "" if unnamed.
        base_revision: Its commit on the hub, or "".
        base_fingerprint: Digest of its weights, configuration and tokenizer.
        weights: Format of the saved weights for transformers or peft: the whole edited model, an adapter, or none.
        memory: Whether edits are stored in memory.json and memory.safetensors.
        settings: All hyperparameters.
        contexts: Contexts that edits were trained in.
        seed: Source of all randomness.
        edits: Edits in the order in which they were applied.
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
