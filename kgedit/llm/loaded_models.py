"""A loaded model that several runs of one process share, as long as it is bit for bit what it was when loaded."""

from __future__ import annotations

import gc
import hashlib
from dataclasses import dataclass, field
from typing import Any

import torch

from kgedit.llm.language_model import LanguageModel
from kgedit.llm.loading import find_model, load_model
from kgedit.llm.tiny import Lesson, TrainingProgress


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model, by what it was asked for, with the digest that it had when it was loaded."""

    wanted: tuple[str, str, str]
    model: LanguageModel
    digest: str


@dataclass(slots=True)
class LoadedModels:
    """Keeps the last model that was loaded.

    A run may leave edits behind, by a failure or by a method that does not undo everything. So the whole model is
    hashed before it is given out again: its weights, the kinds of its modules, their hooks and modes.

    Attributes:
        loads: How often a model was read from disk.
    """

    loads: int = 0
    _last: _Loaded | None = field(default=None, repr=False)

    def load(
        self, name: str, *, device: str, dtype: str, lesson: Lesson | None, progress: TrainingProgress | None
    ) -> LanguageModel:
        """As `load_model` does, from memory if the last model is the same and unedited.

        Raises:
            ModelError: as `load_model`.
        """
        wanted = (find_model(name, lesson, progress).path_or_name, device, dtype)
        last = self._last
        if last is None or last.wanted != wanted or module_digest(last.model.module) != last.digest:
            self._last = last = None  # two models at a time may not fit
            gc.collect()
            model = load_model(name, device=device, dtype=dtype, lesson=lesson, progress=progress)
            self.loads += 1
            self._last = last = _Loaded(wanted, model, module_digest(model.module))
        kept = last.model
        # A new wrapper: what the last run's one computed and kept may come from an edited model.
        return LanguageModel(kept.name, kept.revision, kept.module, kept.tokenizer, by_name=kept.by_name)


def module_digest(module: Any) -> str:
    """Hash of every bit of a module's weights and of what else editing methods change about it."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        digest.update(
            f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad} {tensor.grad is None}".encode()
        )
        digest.update(tensor.detach().reshape(-1).contiguous().view(torch.uint8).cpu().numpy().data)
    for name, part in module.named_modules():
        kinds = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks)
        own_forward = "forward" in vars(part)
        digest.update(f"{name} {type(part)} {part.training} {list(map(len, kinds))} {own_forward}".encode())
    digest.update(module.config.to_json_string().encode())
    return digest.hexdigest()
